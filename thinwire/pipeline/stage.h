// One stage of one replica: carries out its part of a schedule (schedule.h).
//
// F(b) takes the input of minibatch b in, keeps it, and hands the result on; B(b) computes the same forward again, with
// gradients, hands the input's gradient back and lets the input go; U applies the update. The last stage leaves its
// forward to B. In an asynchronous schedule minibatches are b = 0, 1, .. and update b leaves version b + 1 of the
// weights:
//
//   stash       F and B of minibatch b use version max(0, b - w): w + 1 versions in a ring of buffers. An update goes
//               from the newest into the buffer that B(b) used for the last time, so nothing is copied.
//   no stash    B(b) uses the newest version instead, with F(b)'s input: one version. The learning rate is divided by
//               max(1, w)^rho, rho = 1 - min(t / discount_steps, 1), and beta1 is .9 + .09 (P-1-j)/P.
//
// A tied matrix is among the parameters of both ends in a synchronous schedule, where they add up their gradients; in
// an asynchronous one it is a group of its own (tie.h) and among neither's.
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
  Schedule schedule;
  int64_t steps = 0;  // how many there will be; 0: nobody knows
  int64_t begin = 0;  // of them, how many were done before this pipeline was filled
  bool stash = true;
  int64_t discount_steps = 7000;
  ActivationSpec activation;  // of a microbatch, between stages
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
  at::Tensor newest() const { return ring_[done_ % std::ssize(ring_)]; }
  // Computes something with other weights (an evaluation); the stage goes on with its own. A stage with a tie needs
  // that matrix, too.
  void with(const at::Tensor& weights, const at::Tensor& tied, const std::function<void()>& f);
  TiedWeights* tie() { return tie_.get(); }  // null where there is none
  dp::Strategy& strategy() { return *strategy_; }
  const optim::Layout& layout() const { return weights_.layout(); }
  const StageModule& module() const { return module_; }
  bool first() const { return index_ == 0; }
  bool last() const { return index_ == options_.schedule.stages - 1; }

  // Between steps, on all stages together (every stage has done step t): all versions, the inputs it keeps, and what
  // the stage before has sent already.
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
  double discounted(double lr, int64_t t, int stage) const;  // without stash
  void bind(int64_t version);
  Batch batch_of(int64_t microbatch);
  int64_t inputs_ahead(int stage) const;
  int64_t planned() const { return options_.steps == 0 ? 0 : options_.steps - begin_; }

  StageModule module_;
  const StageOptions options_;
  const int index_;
  const Source source_;
  const dp::MeterPtr meter_;
  optim::Flat weights_;
  dp::StrategyPtr strategy_;
  std::vector<at::Tensor> ring_;                                    // version v is in v mod its size
  std::map<int64_t, at::Tensor> inputs_;                            // from F to B
  std::map<int64_t, std::vector<std::function<void()>>> deferred_;  // from B to W
  std::unique_ptr<TiedWeights> tie_;
  std::unique_ptr<StageChannel> other_end_;  // of a tied matrix that is among the parameters
  int tied_piece_ = -1;
  at::Tensor tied_grad_;
  std::unique_ptr<StageChannel> up_, down_;  // towards stage 0, towards the last
  int64_t begin_;                            // steps that were done before; versions and minibatches count from there
  int64_t done_ = 0;                         // updates since
  int64_t bound_ = -1;                       // version the model computes with now
  bool announces_ = false;                   // this backward completes gradients
  double loss_ = 0;                          // of this step so far
  std::optional<std::pair<int64_t, Batch>> drawn_;  // the last step's rows
  PeakStash most_;
  std::vector<double> rates_;  // learning rates, by group
  TracePtr trace_;
  std::vector<dp::GradHookPtr> hooks_;  // last: they call what is above
};

}  // namespace thinwire::pipeline
