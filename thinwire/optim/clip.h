// Clipping by the global norm: a rule around a rule. g *= c / (norm + 1e-6) where norm > c; the norm is summed in fp64
// and rounded once.
#pragma once

#include "thinwire/optim/rule.h"

namespace thinwire::optim {

class Clip final : public Rule {
 public:
  // Without sum_over_shards the gradient is whole.
  Clip(RulePtr inner, double norm, SumOverShards sum_over_shards = {});
  void apply(const Update& update) override;
  State state() override { return inner_->state(); }
  void load(const State& state) override { inner_->load(state); }

 private:
  RulePtr inner_;
  double norm_;
  SumOverShards sum_over_shards_;
};

}  // namespace thinwire::optim
