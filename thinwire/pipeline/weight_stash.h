// The weights that minibatches are computed with, from their F to their B, and the newest: what a stage keeps of them.
//
//   plain        a ring of versions. An update reads the newest and writes the buffer that B used for the last
//                time, so nothing is copied.
//   predicted    F and B of minibatch b, which finds version v, use x(v) + predict (b - v) D(v): where the weights will
//                be by the time its gradient is used, if they go on as they went last. D(v) is what the update rule
//                alone did to make version v, 0 before the first update. Every minibatch has a buffer of its own then,
//                beside the newest weights and D.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/state.h"
#include "thinwire/dp/strategy.h"

namespace thinwire::pipeline {

// Used by its stage's thread.
class WeightStash {
 public:
  // x becomes version 0. `versions` that are kept where nothing is predicted (predict = 0): the newest and those
  // before.
  WeightStash(const at::Tensor& x, int64_t versions, double predict);

  int64_t done() const { return done_; }  // updates, and so the newest version
  at::Tensor newest() const { return ring_[done_ % std::ssize(ring_)]; }

  // What a minibatch that found this version is computed with. F asks first, while the version is the newest; B gets
  // the same numbers again, and lets them go. c10::Error if something is to be predicted from a version that is gone.
  at::Tensor of(int64_t minibatch, int64_t version);
  void release(int64_t minibatch);

  // The next version, by one step of the strategy, which must take a rule where something is predicted, or c10::Error.
  void advance(dp::Strategy& strategy, const at::Tensor& grad, std::span<const double> lr, int64_t t);

  int64_t peak() const { return peak_; }  // the most buffers as long as the weights that were in use at once

  // For checkpoints, between steps; entries alias live memory. get() is for a state of so many updates, in which
  // minibatches done, done + 1, .. had their F already, `in_flight` of them; BadInput where an entry is missing, does
  // not fit, or counts other updates.
  void put(State& state, const std::string& prefix) const;
  void get(const State& state, const std::string& prefix, int64_t done, int64_t in_flight);

 private:
  bool predicts() const { return predict_ > 0; }
  at::Tensor& change() { return ring_[(done_ + 1) % std::ssize(ring_)]; }  // D
  at::Tensor& add(int64_t minibatch);

  const double predict_;
  std::vector<at::Tensor> ring_;             // version v is in v mod its size; predicting, the newest and D take turns
  std::map<int64_t, at::Tensor> predicted_;  // by minibatch
  std::vector<at::Tensor> free_;
  int64_t done_ = 0, peak_;
};

}  // namespace thinwire::pipeline
