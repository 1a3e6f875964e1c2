// A worker that is a whole replica: its model, its weights, its strategy.
#pragma once

#include "thinwire/dp/hooks.h"
#include "thinwire/train/worker.h"

namespace thinwire::train {

class Replica final : public Worker {
 public:
  // Collective.
  Replica(const Recipe& recipe, std::shared_ptr<const data::Text> text, const Mesh& mesh, const WarmStart* warm_start);

  void finish() override;
  at::Tensor agreed() override { return strategy_->consensus(weights_.x); }

 private:
  dp::Strategy& strategy() override { return *strategy_; }
  at::Tensor newest() override { return weights_.x; }
  std::optional<double> do_step(int64_t t) override;
  // Whether this step's update is left out: of a loss or gradient that is not finite, here or, where replicas average
  // gradients, on any of them. Throws after too many in a row.
  bool leave_out(bool finite, int64_t t);
  double sum_of_losses(const data::Batch& held_out) override;
  State own_state() override;
  void load_own(const State& state) override;

  optim::Flat weights_;
  dp::StrategyPtr strategy_;
  std::vector<double> rates_;  // learning rates, by group
  const bool may_skip_;        // then exchanges of gradients begin after backward, when it is known what they are
  int64_t in_a_row_ = 0;       // updates that were left out
  std::vector<dp::GradHookPtr> hooks_;  // last: they call what is above
};

}  // namespace thinwire::train
