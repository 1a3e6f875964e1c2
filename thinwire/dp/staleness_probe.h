// The prediction error of a delayed average: how far from the replicas' weights it is when it is merged.
//
// then: the mean of the weights when they were sent; now: their mean just before the average is merged; written: the
// mean of what the merge wrote. The error is ||now - written|| / ||now - then||, 0 where nothing moved: 0 is a perfect
// guess, 1 is as good as throwing away what was learnt meanwhile. (Redrawn slices: what other merges did to the same
// numbers meanwhile is added to `then`, so that only learning counts as movement.)
//
// The means are taken of samples, evenly spread, so that a large model is not sent a third time; they travel outside
// the training step, when the error is asked for.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "thinwire/comm/group.h"
#include "thinwire/optim/rule.h"

namespace thinwire::dp {

// At most this many numbers stand for a vector.
inline constexpr int64_t kSample = 1 << 16;
// A copy of them: all of a short vector, otherwise every k-th number.
at::Tensor sample(const at::Tensor& x);

class StalenessProbe {
 public:
  // `group`: the same part of every replica, for what is not training.
  StalenessProbe(comm::GroupPtr group, optim::OverShards over_shards)
      : group_(std::move(group)), over_shards_(std::move(over_shards)) {}

  // By the trainer, before a step: whether its merges are to be measured. A strategy may need one such step before it
  // can, to keep what it sends.
  void enable(bool yes) {
    enabled_ = yes;
    was_enabled_ |= yes;
  }
  // By the strategy.
  bool enabled() const { return enabled_; }
  bool was_enabled() const { return was_enabled_; }
  void merged(at::Tensor then, at::Tensor now, at::Tensor written) { merge_ = {{then, now, written}}; }

  // Of the last measured merge since the last call, if there was one and it was late. Collective.
  std::optional<double> error();

 private:
  struct Merge {
    at::Tensor then, now, written;  // this replica's, samples
  };
  const comm::GroupPtr group_;
  const optim::OverShards over_shards_;
  bool enabled_ = false, was_enabled_ = false;
  std::optional<Merge> merge_;
};
using StalenessProbePtr = std::shared_ptr<StalenessProbe>;

}  // namespace thinwire::dp
