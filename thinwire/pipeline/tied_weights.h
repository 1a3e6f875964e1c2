// A weight matrix that the first and the last stage share (embedding and head) in an asynchronous pipeline.
//
// Each end has a copy, and its own clipping, rule and strategy for it, apart from the stage's other weights. For every
// minibatch b the first stage computes the gradient e(b) of the embedding and the last h(b) of the head. Each sends its
// own to the other, one fp32 message of the matrix's size each way, and both apply e(b) + h(b) as update b: the first
// stage at U(b), the last at U(b + w), w being the first stage's warm-up, when e(b) has had the time to arrive. The
// updates that are left at the end are applied by finish(). In a synchronous beginning of S steps both apply it at
// U(b).
//
// Why the copies stay equal to the bit: both ends apply the same sums in the same order to the same start, and forwards
// of minibatch b use version max(S, b - w) at both ends, or what is predicted from it (weight_stash.h). The first keeps
// w + 1 versions for that; the last is w updates behind anyway, so one buffer is enough where nothing is predicted.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "thinwire/dp/strategy.h"
#include "thinwire/optim/flat.h"
#include "thinwire/pipeline/stage_channel.h"
#include "thinwire/pipeline/weight_stash.h"

namespace thinwire::pipeline {

// One end. Used by its stage's thread; failures are those of StageChannel and of the strategy.
class TiedWeights {
 public:
  using MakeStrategy = std::function<dp::StrategyPtr(const optim::Flat& weights)>;
  // `stages` joins the stages, and carries nothing else between the two ends. At both ends, with equal arguments. The
  // matrix becomes a view of flat weights here. Without stash the first end's backwards use its newest version.
  TiedWeights(const at::Tensor& matrix, at::ScalarType compute, comm::GroupPtr stages, int64_t warmup, bool stash,
              double predict, const MakeStrategy& make_strategy, const dp::MeterPtr& meter);

  // The model's matrix shows what forward and backward of a minibatch use that finds this version of stage 0.
  void bind_for(int64_t minibatch, int64_t version);
  void release(int64_t minibatch) { stash_.release(minibatch); }  // after its backward
  // It shows other numbers, for an evaluation, until the next bind_for().
  void with(const at::Tensor& weights);

  void zero_grad() { weights_.zero_grad(); }
  // After a step's backwards: its gradient is complete, and is sent to the other end. Does not block.
  void computed();
  // U of this end's stage, which is step t; `late`: it is past a synchronous beginning, so the last stage applies the
  // gradients of an older one. Blocks until the other end's gradient is here, if an update is due.
  void update(int64_t t, double lr, bool late);
  // Applies the updates that are left, and ends on what all replicas agree on. At both ends.
  void finish();

  // The version after the last update here; past a synchronous beginning the last end is w updates behind the first.
  at::Tensor newest() const { return stash_.newest(); }
  dp::Strategy& strategy() { return *strategy_; }

  // Checkpoints; see Stage::state(). Blocks until the other end's gradients of the updates left are here.
  void put(State& state, const std::string& prefix);
  // `steps` the stage has done, `late` of them past a synchronous beginning; in_flight: as WeightStash::get().
  void get(const State& state, const std::string& prefix, int64_t steps, int64_t late, int64_t in_flight);

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
  std::deque<Own> own_;                           // gradients computed here, not applied yet
  std::pair<int64_t, int64_t> bound_ = {-1, -1};  // minibatch and version the model computes with
};

}  // namespace thinwire::pipeline
