// One rank's part of a run: a whole model (replica.h) or a stage of one (stage_worker.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "thinwire/data/text.h"
#include "thinwire/train/mesh.h"
#include "thinwire/train/recipe.h"
#include "thinwire/train/warm_start.h"

namespace thinwire::train {

// What the training steps cost this rank; evaluation, checkpoints and finish() are not in it.
struct Costs {
  double seconds = 0;       // wall time: compute_s + exposed_s
  double exposed_s = 0;     // of it, waiting for the wire, and between two steps for ranks that are slower
  double compute_s = 0;     // forward, backward, update
  double update_s = 0;      // of it, in the update rule
  int64_t wire_bytes = 0;   // sent to other replicas so far; what is in flight counts as it is sent
  int64_t stage_bytes = 0;  // sent to other stages
  int64_t skipped = 0;      // updates that were left out: train.on_divergence
  double sync_seconds = 0, sync_exposed_s = 0;  // of seconds and exposed_s, in a pipeline's synchronous beginning
};

// Used by one thread, its rank's. Methods are collective over the world unless they only return a number; what the
// network does wrong is comm::PeerLost or comm::Timeout, after which the worker is of no further use.
class Worker {
 public:
  virtual ~Worker() = default;

  // Training step t (from 1). Returns the loss on the own batch, where this rank knows it; throws if it is not finite.
  std::optional<double> step(int64_t t);
  // Mean loss of the consensus weights on the held-out text, shared out over the replicas; throws if it is not finite.
  // Collective.
  double evaluate();
  // mean_i ||x_i - mean x||^2 / ||mean x||^2, of a sample. Collective.
  double consensus_distance();
  // Waits for what is in flight, so that the costs have it. Collective.
  void drain();
  // Applies what is in flight; replicas end on the same weights.
  virtual void finish() = 0;
  // The weights that replicas agree on, of the whole model, flat; on rank 0 only. Collective.
  virtual at::Tensor agreed() = 0;

  // Weights, strategy and costs, and the weights that replicas agree on. Between steps. Collective.
  struct Saved {
    State state;
    std::string agreed;  // the entry of the agreed weights: one that is there anyway, or "agreed"
  };
  Saved state();
  void load(const State& state);

  // Before a step: whether its merges are to be measured. And their prediction error; collective.
  void measure_staleness(bool yes) { probe_->enable(yes); }
  std::optional<double> prediction_error();

  // Of the last step, where the strategy has them.
  std::optional<dp::GradientNorms> norms() { return strategy().norms(); }
  // How many steps a rank may be ahead of another.
  virtual int lead() const { return 0; }
  // Of this rank, so far.
  const Costs& costs() const { return costs_; }
  // Between two steps, for a message of the others: time that the wire cost.
  void waited(double seconds) { spent(seconds, seconds); }
  const optim::Schedule& schedule() const { return schedule_; }
  const models::Model& model() const { return *model_; }
  const optim::Layout& layout() const { return layout_; }  // of the whole model
  int64_t setup_bytes() const { return setup_bytes_; }
  // From now on steps and waits are entered in `trace`.
  virtual void record(const TracePtr& trace) {
    trace_ = trace;
    meter_->record(trace);
  }

 protected:
  Worker(const Recipe& recipe, std::shared_ptr<const data::Text> text, Mesh mesh, const WarmStart* warm_start);
  void made();  // by constructors, at their end: what was sent until here was setting up

  virtual dp::Strategy& strategy() = 0;
  virtual void wait_for_wire() { strategy().drain(); }
  virtual at::Tensor newest() = 0;  // weights of this rank
  virtual std::optional<double> do_step(int64_t t) = 0;
  // Sum over the rows of the mean loss of each, of what replicas agree on; on the last stage, elsewhere 0.
  virtual double sum_of_losses(const data::Batch& held_out) = 0;
  virtual State own_state() = 0;
  // What replicas agree on of this rank's weights, by the prefix of its entries in own_state(). Collective.
  virtual std::map<std::string, at::Tensor> agreed_parts() { return {{"", strategy().consensus(newest())}}; }
  virtual void load_own(const State& state) = 0;

  // For a strategy of this rank; norms of the whole replica are summed over the stages where `over_stages`.
  dp::Groups groups(comm::GroupPtr sync, bool over_stages);

  data::Batch batch_of(int64_t t) const;

  const Recipe recipe_;
  const std::shared_ptr<const data::Text> text_;
  const Mesh mesh_;
  const optim::Schedule schedule_;
  const std::shared_ptr<models::Model> model_;  // whole; a stage uses its units of it
  const optim::Layout layout_;
  const dp::MeterPtr meter_ = std::make_shared<dp::Meter>();
  const dp::StalenessProbePtr probe_;
  TracePtr trace_;
  Costs costs_;

 private:
  void count_bytes();
  void spent(double seconds, double exposed);

  const int64_t sync_steps_;
  int64_t last_step_ = 0;
  int64_t setup_bytes_ = 0;
  int64_t sent_before_ = 0, sent_to_stages_before_ = 0;  // of the ledgers, what costs_ does not have yet begins here
};

// A Replica, or a StageWorker where the recipe has stages; at the very beginning, or where `warm_start` got to.
// Collective.
std::unique_ptr<Worker> make_worker(const Recipe& recipe, std::shared_ptr<const data::Text> text, const Mesh& mesh,
                                    const WarmStart* warm_start = nullptr);

}  // namespace thinwire::train
