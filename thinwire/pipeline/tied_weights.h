// A weight matrix that the first and the last stage share (embedding and head) in an asynchronous pipeline.
//
// Each end has a copy, and its own clipping, rule and strategy for it, apart from the stage's other weights. For every
// minibatch b the first stage computes the gradient e(b) of the embedding and the last h(b) of the head. Each sends its
// own to the other, one fp32 message of the matrix's size each way, and both apply e(b) + h(b) as update b: the first
// stage at U(b), the last at U(b + w), w being the first stage's warm-up, when e(b) has had the time to arrive. The
// updates that are left at the end are applied by finish().
//
// Why the copies stay equal to the bit: both ends apply the same sums in the same order to the same start, and forwards
// of minibatch b use version max(0, b - w) at both ends (the first keeps w + 1 versions in a ring for that; the last is
// w updates behind anyway, so one buffer is enough).
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "thinwire/dp/strategy.h"
#include "thinwire/optim/flat.h"
#include "thinwire/pipeline/stage_channel.h"

namespace thinwire::pipeline {

// One end. Used by its stage's thread; failures are those of StageChannel and of the strategy.
class TiedWeights {
 public:
  using MakeStrategy = std::function<dp::StrategyPtr(const optim::Flat& weights)>;
  // `stages` joins the stages, and carries nothing else between the two ends. At both ends, with equal arguments. The
  // matrix becomes a view of flat weights here. Without stash the first end's backwards use its newest version.
  TiedWeights(const at::Tensor& matrix, at::ScalarType compute, comm::GroupPtr stages, int64_t warmup, bool stash,
              const MakeStrategy& make_strategy, const dp::MeterPtr& meter);

  // The model's matrix shows the version that forward and backward of minibatch b use.
  void bind_for(int64_t batch);
  // It shows other numbers, for an evaluation, until the next bind_for().
  void with(const at::Tensor& weights);

  void zero_grad() { weights_.zero_grad(); }
  // After each backward: the gradient of that minibatch is complete, and is sent to the other end. Does not block.
  void computed();
  // U of this end's stage, which is step t. Blocks until the other end's gradient is here, if an update is due.
  void update(int64_t t, double lr);
  // Applies the updates that are left, and ends on what all replicas agree on. At both ends.
  void finish();

  // The version after the last update here; the last end is w updates behind the first.
  at::Tensor newest() const { return ring_[done_ % std::ssize(ring_)]; }
  dp::Strategy& strategy() { return *strategy_; }

  // Checkpoints; see Stage::state(). Blocks until the other end's gradients of the updates left are here.
  void put(State& state, const std::string& prefix);
  void get(const State& state, const std::string& prefix, int64_t steps);  // so many the stage has done

 private:
  void apply_next();

  const bool first_, stash_;
  const int64_t warmup_;
  optim::Flat weights_;
  dp::StrategyPtr strategy_;
  std::vector<at::Tensor> ring_;  // version v is in v mod its size
  StageChannel channel_;
  std::vector<double> rates_;  // learning rates, by group
  struct Own {
    at::Tensor grad;
    int64_t t = 0;
    double lr = 0;
  };
  std::deque<Own> own_;  // gradients computed here, not applied yet
  int64_t done_ = 0;     // updates
  int64_t bound_ = -1;
};

}  // namespace thinwire::pipeline
