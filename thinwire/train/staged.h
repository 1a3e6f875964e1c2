// A worker that is one stage of a replica (thinwire/pipeline/stage.h).
#pragma once

#include "thinwire/pipeline/stage.h"
#include "thinwire/train/worker.h"

namespace thinwire::train {

// The schedule that a recipe asks for; hop must be a number by now. BadInput for numbers that do not fit together.
pipeline::Schedule schedule_of(const Recipe& recipe);

// BadInput if the stages that a recipe asks for do not fit the rest of it.
void check_stages(const Recipe& recipe);

// How many units each stage takes, as pipeline.cut says; "measured" must be numbers by now.
std::vector<int64_t> cut_of(const Recipe& recipe, const models::Model& model);
// The units of one stage: first, and one beyond the last.
std::pair<size_t, size_t> units_of(const std::vector<int64_t>& cut, int stage);

class Staged final : public Worker {
 public:
  Staged(const Recipe& recipe, std::shared_ptr<const data::Text> text, const Mesh& mesh);  // collective

  void finish() override;
  at::Tensor agreed() override;
  int lead() const override;
  void record(const TracePtr& trace) override;

 private:
  dp::Strategy& strategy() override { return stage_->strategy(); }
  double exposed_s() override { return stage_->exposed_s(); }
  at::Tensor newest() override { return stage_->newest(); }
  std::optional<double> do_step(int64_t t) override { return stage_->step(t, schedule_.at(t)); }
  double sum_of_losses(const data::Batch& held_out) override;
  State own_state() override { return stage_->state(); }
  void load_own(const State& state) override { stage_->load(state); }

  dp::StrategyPtr make_strategy(const optim::Flat& weights) const;

  const pipeline::Schedule order_;
  std::unique_ptr<pipeline::Stage> stage_;
};

}  // namespace thinwire::train
