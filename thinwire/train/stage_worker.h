// A worker that is one stage of a replica (thinwire/pipeline/stage.h).
#pragma once

#include "thinwire/pipeline/stage.h"
#include "thinwire/train/stage_module.h"
#include "thinwire/train/worker.h"

namespace thinwire::train {

class StageWorker final : public Worker {
 public:
  // Collective.
  StageWorker(const Recipe& recipe, std::shared_ptr<const data::Text> text, const Mesh& mesh,
              const WarmStart* warm_start);

  void finish() override;
  at::Tensor agreed() override;
  int lead() const override;
  void record(const TracePtr& trace) override;

 private:
  dp::Strategy& strategy() override { return stage_->strategy(); }
  void wait_for_wire() override { stage_->drain(); }
  at::Tensor newest() override { return stage_->newest(); }
  std::optional<double> do_step(int64_t t) override { return stage_->step(t, schedule_.at(t)); }
  double sum_of_losses(const data::Batch& held_out) override;
  State own_state() override { return stage_->state(); }
  void load_own(const State& state) override { stage_->load(state); }
  std::map<std::string, at::Tensor> agreed_parts() override;

  dp::StrategyPtr make_strategy(const optim::Flat& weights, const comm::GroupPtr& group, int stage);
  // Lets go of the weights of other stages' units; their names and shapes stay.
  void forget_others(Units own);
  // The tied matrix that replicas agree on, at both ends; undefined where there is none. Collective.
  at::Tensor agreed_tie();

  const pipeline::Schedule order_;
  std::unique_ptr<pipeline::Stage> stage_;
};

}  // namespace thinwire::train
