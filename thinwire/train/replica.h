// One rank's share of a run: its model, its weights, its strategy, and what they cost so far.
#pragma once

#include <memory>

#include "thinwire/comm/group.h"
#include "thinwire/data/text.h"
#include "thinwire/train/recipe.h"

namespace thinwire::train {

// What the training steps cost this rank; evaluation, checkpoints and finish() are not in it.
struct Costs {
  double seconds = 0;      // wall time, with what went to waiting for slower ranks between two steps
  double exposed_s = 0;    // of it, waiting for the wire
  double compute_s = 0;    // forward, backward, update
  double update_s = 0;     // of it, in the update rule
  int64_t wire_bytes = 0;  // sent to other replicas so far; what is under way counts as it leaves
};

class Replica {
 public:
  // `wire` joins the replicas and may be emulated; `bare` joins the same ranks as fast as it goes and is for what a run
  // needs beside its training (evaluation, agreement). Collective.
  Replica(const Recipe& recipe, std::shared_ptr<const data::Text> text, comm::GroupPtr wire, comm::GroupPtr bare);

  // Training step t (from 1). Returns the loss on the own batch; throws if it is not finite.
  double step(int64_t t);
  // Mean loss of the consensus weights on the held-out text, shared out over the ranks; throws if it is not finite.
  // Collective.
  double evaluate();
  // mean_i ||x_i - mean x||^2 / ||mean x||^2. Collective.
  double consensus_distance();
  // Waits for what is under way, so that the costs have it; and lands it. Collective.
  void drain();
  void finish();
  at::Tensor consensus() { return strategy_->consensus(weights_->x); }

  // Weights, strategy and costs; between steps.
  State state();
  void load(const State& state);

  // Before a step: whether what lands in it is to be judged. And the verdict; collective.
  void watch(bool yes) { strategy_->watch(yes); }
  std::optional<double> prediction_error() { return strategy_->prediction_error(); }

  // Of the last step, where the strategy has them.
  std::optional<dp::GradientNorms> norms() const { return strategy_->norms(); }
  const Costs& costs() const { return costs_; }
  void waited(double seconds) { costs_.seconds += seconds; }
  const optim::Schedule& schedule() const { return schedule_; }
  const models::Model& model() const { return *model_; }
  const optim::Layout& layout() const { return weights_->layout(); }
  int64_t setup_bytes() const { return setup_bytes_; }
  // From now on steps and waits are entered in `trace`.
  void record(TracePtr trace);

 private:
  void count_bytes();

  const Recipe recipe_;
  const std::shared_ptr<const data::Text> text_;
  const comm::GroupPtr wire_, bare_;
  const optim::Schedule schedule_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<optim::Flat> weights_;
  dp::StrategyPtr strategy_;
  at::Tensor mean_;  // of the weights; made when first needed
  Costs costs_;
  int64_t setup_bytes_ = 0;
  int64_t sent_before_ = 0;  // of the ledger, what costs_ does not have yet begins here
  TracePtr trace_;
};

}  // namespace thinwire::train
