// One stage of one replica: executes its part of a schedule (schedule.h).
//
// A model of P stages is trained like this. Stage 0 reads the tokens of microbatch b, computes its units and sends the
// activation to stage 1, and so on; the last stage computes the loss, and the gradient of each stage's input travels
// back up:
//
//   F(b)   receives the activation (stage 0: draws the tokens), stores it, computes forward without autograd, and
//          sends the result down. The last stage does no more than store it: its forward is part of B.
//   B(b)   receives the gradient from below (last stage: computes the loss), computes forward again with autograd,
//          then backward, sends the input's gradient up, and releases the stored input.
//   W(b)   the weights' gradients that B(b) deferred (zero_bubble_h1 alone).
//   U(t)   gives the flat gradient to the strategy (dp/strategy.h), which averages over replicas and applies the rule.
//
// Cost of a microbatch: 2 (P-1) messages of one activation (stage_channel.h), P-1 hops of latency each way, and one
// more forward on all stages but the last, for which a stage stores inputs instead of whole autograd graphs. Sends
// return at once, so a transfer is hidden as long as the schedule has other work: that is what the warm-up forwards
// w_j (schedule.h) are for.
//
// A synchronous schedule updates when all microbatches of the step are through, so there is one version of the weights
// and the result is that of one device. In an asynchronous one minibatches are b = 0, 1, .., update b leaves version
// b + 1 of the weights, and w_j newer minibatches have passed F when B(b) runs. Two ways to deal with that:
//
//   stash       F and B of minibatch b use version max(0, b - w), or what is predicted from it (weight_stash.h): B is
//               the gradient of the very function that F computed. The learning rate is divided by
//               (1 + w)^rate_power, from the first update on.
//   no stash    B(b) uses the newest version instead, with F(b)'s input: one version. The learning rate is divided by
//               max(1, w)^rho, rho = 1 - min(t / discount_steps, 1), and beta1 is .9 + .09 (P-1-j)/P.
//
// Where an asynchronous schedule begins with steps of a synchronous one, a step's rows are divided into microbatches
// until then, and messages change their shape after it.
//
// A tied matrix is among the parameters of both ends in a synchronous schedule, where each adds the other's gradient
// before its update; in an asynchronous one it has a strategy of its own (tied_weights.h), from the first update on,
// and is among neither's.
//
// Weights depend on options and data only, never on the links: what is late is waited for, and gradients are summed in
// the order of microbatches.
#pragma once

#include <functional>
#include <optional>

#include "thinwire/dp/hooks.h"
#include "thinwire/dp/strategy.h"
#include "thinwire/optim/catalog.h"
#include "thinwire/optim/flat.h"
#include "thinwire/pipeline/schedule.h"
#include "thinwire/pipeline/stage_channel.h"
#include "thinwire/pipeline/tied_weights.h"
#include "thinwire/pipeline/weight_stash.h"

namespace thinwire::pipeline {

// What a stage computes: some consecutive units of a model. The functions are called by the stage's thread alone, and
// must be deterministic: forward is computed twice from the same input. Parameters are fp32 leaves that require a
// gradient; the stage makes them views of its flat weights, now of one version and now of another: they must not be
// replaced.
struct StageModule {
  std::vector<std::vector<at::Tensor>> parameters = {};  // by unit
  optim::Labels labels = {};                             // their names, for messages and for rules by layer
  std::function<at::Tensor(const at::Tensor& input)> forward;
  std::function<at::Tensor(const at::Tensor& output, const at::Tensor& targets)> loss = {};  // mean; last stage
  at::Tensor tied = {};  // of the first and the last stage: a matrix they share; see above
};

// Rows of input and what they should give; dimension 0 counts rows.
struct Batch {
  at::Tensor tokens, targets;
};
// All rows of step t (from 1) of this replica. Called on the first and the last stage, which must get the same, and
// again for a step that a checkpoint resumes: a pure function of t. Rows divide by the schedule's microbatches.
using Source = std::function<Batch(int64_t t)>;
// Makes the strategy of these weights, over the ranks that hold the same stage of other replicas. Collective over them.
using MakeStrategy = std::function<dp::StrategyPtr(const optim::Flat& weights)>;

struct StageOptions {
  Schedule schedule;                   // of a whole run, `begin` steps of which were done
  int64_t steps = 0;                   // how many there will be; 0: unknown, the pipeline is never drained
  int64_t begin = 0;                   // of them, how many were done before this pipeline was filled
  bool stash = true;                   // see above; synchronous schedules need none
  int64_t discount_steps = 7000;       // without stash, >= 1
  double predict = 0, rate_power = 0;  // >= 0, with stash
  ActivationSpec activation;           // of a microbatch, between stages; of a minibatch in a synchronous beginning
};

// beta1 of stage j of P without stash.
double unstashed_beta1(int stage, int stages);

// Used by one thread, as its gradient hooks are. Every method that communicates throws comm::PeerLost or comm::Timeout
// if a neighbour, or a rank of the strategy, is lost or stuck. After any exception from step() the stage is in the
// middle of a step and of no further use: a run goes on from its last checkpoint, in a new Stage.
class Stage {
 public:
  // `stages` joins the stages of this replica, by their numbers. Collective over it. The second strategy is for a tied
  // matrix of an asynchronous schedule. `meter` counts waiting for neighbours; null: it is not counted. c10::Error if
  // group and schedule disagree on the number of stages, or the last stage has no loss.
  Stage(StageModule module, const StageOptions& options, comm::GroupPtr stages, Source source,
        const MakeStrategy& make_strategy, const MakeStrategy& make_tie_strategy = {}, dp::MeterPtr meter = {});
  Stage(const Stage&) = delete;  // hooks hold its place

  // Step t: all this stage does up to its update t, with this learning rate. Steps come one by one, from `begin` + 1.
  // Every stage of the replica calls it. Returns the mean loss of the step's minibatch on the last stage, nothing on
  // the others; c10::Error if it is not finite.
  std::optional<double> step(int64_t t, double lr);

  // The newest weights.
  at::Tensor newest() const { return stash_->newest(); }
  // Calls f() with the module's parameters showing other weights (an evaluation); the next step shows its own again. A
  // stage with tied weights of their own needs that matrix, too.
  void with(const at::Tensor& weights, const at::Tensor& tied, const std::function<void()>& f);
  TiedWeights* tie() { return tie_.get(); }  // null unless they have a strategy of their own
  dp::Strategy& strategy() { return *strategy_; }
  const optim::Layout& layout() const { return weights_.layout(); }
  const StageModule& module() const { return module_; }
  bool first() const { return index_ == 0; }
  bool last() const { return index_ == schedule_.stages - 1; }

  // For checkpoints: all versions, predicted ones as they are, the stored inputs, and what the stage before has sent
  // already (waited for). Between steps, on all stages together (every stage has done step t). Entries alias live
  // memory: copy or write them before the next step. load() goes before the first step, with options that give the same
  // schedule; BadInput where an entry is missing, does not fit, or is out of range.
  State state();
  void load(const State& state);
  // Waits until the exchanges in flight between replicas have arrived; none is applied by that.
  void drain();
  // After the last step: applies what is in flight, and ends on the weights all replicas agree on (newest()).
  void finish();

  // The most versions and inputs it has stored at once so far; schedule.h's peak_stash() says it beforehand.
  PeakStash peak_stash() const { return {.versions = stash_->peak(), .inputs = peak_inputs_}; }
  void record(const TracePtr& trace) { trace_ = trace; }  // what it computes; waits are the meter's

 private:
  void forward(int64_t batch);
  void backward(int64_t batch);
  void make_tie(const comm::GroupPtr& stages, const MakeStrategy& make_strategy);
  void update(int64_t t, double lr);
  double rate(double lr, int64_t t, int stage) const;  // of a stage
  ActivationSpec activation(bool late) const;
  void reshape_channels(bool late);
  void bind(int64_t batch);
  Batch batch_of(int64_t microbatch);
  int64_t inputs_ahead(int stage, int64_t done) const;  // that have had their F after so many updates
  int64_t inputs_ahead(int stage) const { return inputs_ahead(stage, done()); }
  int64_t planned() const { return options_.steps == 0 ? 0 : options_.steps - begin_; }
  int64_t done() const { return stash_->done(); }  // updates since begin_

  StageModule module_;
  const StageOptions options_;
  Schedule schedule_;  // of the steps since begin_
  const int index_;
  const Source source_;
  const dp::MeterPtr meter_;
  optim::Flat weights_;
  dp::StrategyPtr strategy_;
  std::unique_ptr<WeightStash> stash_;
  std::map<int64_t, at::Tensor> inputs_;                            // from F to B
  std::map<int64_t, std::vector<std::function<void()>>> deferred_;  // from B to W
  std::unique_ptr<TiedWeights> tie_;
  std::unique_ptr<StageChannel> other_end_;  // of a tied matrix that is among the parameters
  int tied_piece_ = -1;
  at::Tensor tied_grad_;
  std::unique_ptr<StageChannel> up_, down_;  // towards stage 0, towards the last
  bool late_channels_;                       // they are past a synchronous beginning
  int64_t begin_;                            // steps that were done before; versions and minibatches count from there
  struct Bound {
    int64_t minibatch = -1, version = -1;
    friend bool operator==(const Bound&, const Bound&) = default;
  } bound_;                                         // what the model computes with now
  bool announces_ = false;                          // this backward completes gradients
  double loss_ = 0;                                 // of this step so far
  std::optional<std::pair<int64_t, Batch>> drawn_;  // the last step's rows
  int64_t peak_inputs_ = 0;
  std::vector<double> rates_;  // learning rates, by group
  TracePtr trace_;
  std::vector<dp::GradHookPtr> hooks_;  // last: they call what is above
};

}  // namespace thinwire::pipeline
