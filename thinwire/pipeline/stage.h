// One stage of one replica: carries out its part of a schedule (schedule.h).
//
// F(b) takes the input of minibatch b in, keeps it, and hands the result on; B(b) computes the same forward again, with
// gradients, hands the input's gradient back and lets the input go; U applies the update. The last stage leaves its
// forward to B. In an asynchronous schedule minibatches are b = 0, 1, .. and update b leaves version b + 1 of the
// weights:
//
//   stash       F and B of minibatch b use version max(0, b - w), or what is predicted from it (weight_stash.h). The
//               learning rate is divided by (1 + w)^rate_power, from the first update on.
//   no stash    B(b) uses the newest version instead, with F(b)'s input: one version. The learning rate is divided by
//               max(1, w)^rho, rho = 1 - min(t / discount_steps, 1), and beta1 is .9 + .09 (P-1-j)/P.
//
// Where an asynchronous schedule begins with steps of a synchronous one, a step's rows are cut into microbatches until
// then, and messages change their shape with it.
//
// A tied matrix is among the parameters of both ends in a synchronous schedule, where they add up their gradients; in
// an asynchronous one it is a group of its own (tied_weights.h) from the first update on, and among neither's.
//
// Weights depend on options and data only, never on the links: what is late is waited for.
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

// What a stage computes: some units of a model in a row.
struct StageModule {
  std::vector<std::vector<at::Tensor>> parameters = {};  // by unit
  optim::Labels labels = {};
  std::function<at::Tensor(const at::Tensor& input)> forward;
  std::function<at::Tensor(const at::Tensor& output, const at::Tensor& targets)> loss = {};  // mean; last stage
  at::Tensor tied = {};  // of the first and the last stage: a matrix they share; see above
};

struct Batch {
  at::Tensor tokens, targets;
};
// All rows of step t (from 1), the same on every stage that asks.
using Source = std::function<Batch(int64_t t)>;
using MakeStrategy = std::function<dp::StrategyPtr(const optim::Flat& weights)>;

struct StageOptions {
  Schedule schedule;  // of a whole run, which `begin` steps were done of
  int64_t steps = 0;  // how many there will be; 0: nobody knows
  int64_t begin = 0;  // of them, how many were done before this pipeline was filled
  bool stash = true;
  int64_t discount_steps = 7000;
  double predict = 0, rate_power = 0;  // with stash
  ActivationSpec activation;           // of a microbatch, between stages; not of a synchronous beginning
};

// beta1 of stage j of P without stash.
double unstashed_beta1(int stage, int stages);

class Stage {
 public:
  // `stages` joins the stages of this replica, by their numbers. Collective over it. The second strategy is for a tied
  // matrix. `meter` counts waiting for neighbours; null: nobody does.
  Stage(StageModule module, const StageOptions& options, comm::GroupPtr stages, Source source,
        const MakeStrategy& make_strategy, const MakeStrategy& make_tie_strategy = {}, dp::MeterPtr meter = {});
  Stage(const Stage&) = delete;  // hooks hold its place

  // Step t (from 1): all this stage does up to its update t, with this learning rate. Returns the mean loss of the
  // step's minibatch on the last stage; throws if that is not finite.
  std::optional<double> step(int64_t t, double lr);

  // The newest weights.
  at::Tensor newest() const { return stash_->newest(); }
  // Computes something with other weights (an evaluation); the stage goes on with its own. A stage with a tie needs
  // that matrix, too.
  void with(const at::Tensor& weights, const at::Tensor& tied, const std::function<void()>& f);
  TiedWeights* tie() { return tie_.get(); }  // null where there is none
  dp::Strategy& strategy() { return *strategy_; }
  const optim::Layout& layout() const { return weights_.layout(); }
  const StageModule& module() const { return module_; }
  bool first() const { return index_ == 0; }
  bool last() const { return index_ == schedule_.stages - 1; }

  // Between steps, on all stages together (every stage has done step t): all versions, predicted ones as they are, the
  // inputs it keeps, and what the stage before has sent already.
  State state();
  void load(const State& state);
  // Waits until what is under way between replicas has arrived; nothing lands by it.
  void drain();
  // After the last step: waits for what is under way, and ends on the weights all replicas agree on.
  void finish();

  PeakStash peak_stash() const { return most_; }
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
  PeakStash most_;
  std::vector<double> rates_;  // learning rates, by group
  TracePtr trace_;
  std::vector<dp::GradHookPtr> hooks_;  // last: they call what is above
};

}  // namespace thinwire::pipeline
