// Clipping by the global norm: a rule around a rule. g *= c / (norm + 1e-6) where norm > c; the norm is summed in fp64
// and rounded once, and is the one that the update brings along, where it brings one. update.grad is scaled in place.
//
// The rule of torch.nn.utils.clip_grad_norm_. All ranks of a replica clip by the same norm, and so stay alike.
#pragma once

#include "thinwire/optim/layout.h"
#include "thinwire/optim/rule.h"

namespace thinwire::optim {

// One more pass over the gradient where the norm is unknown, and one where it is too large.
class Clip final : public Rule {
 public:
  // Around `inner`, which it owns; the state is the inner one's. `over_replica`: the gradient is a part of the
  // replica's, and the sum of squares is summed over its ranks. norm > 0.
  Clip(RulePtr inner, const Layout& layout, double norm, OverShards over_replica = {});
  void apply(const Update& update) override;
  State state() override { return inner_->state(); }
  void load(const State& state) override { inner_->load(state); }

 private:
  RulePtr inner_;
  Layout layout_;
  double norm_;
  OverShards over_replica_;
};

}  // namespace thinwire::optim
