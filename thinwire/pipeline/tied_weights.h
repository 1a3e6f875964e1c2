// A weight matrix that the first and the last stage share (embedding and head) in an asynchronous pipeline.
//
// It is a group of its own: its own clipping, rule and strategy, with a copy at each end. The ends swap their
// gradients, and both apply e(b) + h(b) as its update b: the first stage at U(b), the last at U(b + w), w being the
// first stage's warm-up, when e(b) has had the time to come; what is left then is applied by finish(). Forwards of
// minibatch b use version max(0, b - w) at both ends, or what is predicted from it (weight_stash.h), so both compute
// with the same numbers, and the copies never part. In a synchronous beginning both apply e(b) + h(b) at U(b).
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "thinwire/dp/strategy.h"
#include "thinwire/optim/flat.h"
#include "thinwire/pipeline/stage_channel.h"
#include "thinwire/pipeline/weight_stash.h"

namespace thinwire::pipeline {

class TiedWeights {
 public:
  using MakeStrategy = std::function<dp::StrategyPtr(const optim::Flat& weights)>;
  // `stages` joins the stages, for this alone. Without stash the first end's backwards use its newest version.
  TiedWeights(const at::Tensor& matrix, at::ScalarType compute, comm::GroupPtr stages, int64_t warmup, bool stash,
              double predict, const MakeStrategy& make_strategy, const dp::MeterPtr& meter);

  // The model computes with what forward and backward of a minibatch are to use that finds this version of stage 0.
  void bind_for(int64_t minibatch, int64_t version);
  void release(int64_t minibatch) { stash_.release(minibatch); }  // after its backward
  void with(const at::Tensor& weights);                           // for an evaluation

  void zero_grad() { weights_.zero_grad(); }
  // The gradient of a step is there: the other end gets it.
  void computed();
  // U of this end's stage, which is step t; `late`: the last stage applies the gradients of an older one.
  void update(int64_t t, double lr, bool late);
  // Does the updates that are left, and ends on what all replicas agree on. At both ends.
  void finish();

  at::Tensor newest() const { return stash_.newest(); }
  dp::Strategy& strategy() { return *strategy_; }

  void put(State& state, const std::string& prefix);
  void get(const State& state, const std::string& prefix, int64_t in_flight);

 private:
  void apply_next();

  const bool first_, keeps_versions_;
  const int64_t warmup_;
  optim::Flat weights_;
  dp::StrategyPtr strategy_;
  WeightStash stash_;
  StageChannel channel_;
  std::vector<double> rates_;  // learning rates, by group
  struct Own {
    at::Tensor grad;
    int64_t t = 0;
    double lr = 0;
  };
  std::deque<Own> own_;                           // computed here, not applied yet
  std::pair<int64_t, int64_t> bound_ = {-1, -1};  // minibatch and version the model computes with
};

}  // namespace thinwire::pipeline
