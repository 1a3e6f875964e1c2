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
// Weights depend on options and data only, never on the links: what is late is waited for.
#pragma once

#include <functional>
#include <optional>

#include "thinwire/dp/strategy.h"
#include "thinwire/optim/catalog.h"
#include "thinwire/optim/flat.h"
#include "thinwire/pipeline/border.h"
#include "thinwire/pipeline/schedule.h"

namespace thinwire::pipeline {

// What a stage computes: some units of a model in a row.
struct Body {
  std::vector<std::vector<at::Tensor>> parameters = {};  // by unit
  optim::Labels labels = {};
  std::function<at::Tensor(const at::Tensor& input)> forward;
  std::function<at::Tensor(const at::Tensor& output, const at::Tensor& targets)> loss = {};  // mean; last stage
};

struct Rows {
  at::Tensor tokens, targets;
};
// All rows of step t (from 1), the same on every stage that asks.
using Source = std::function<Rows(int64_t t)>;
using MakeStrategy = std::function<dp::StrategyPtr(const optim::Flat& weights)>;

struct StageOptions {
  Schedule schedule;
  int64_t steps = 0;  // how many there will be; 0: nobody knows
  bool stash = true;
  int64_t discount_steps = 7000;
  Parcel parcel;  // of a microbatch, between stages
};

// beta1 of stage j of P without stash.
double unstashed_beta1(int stage, int stages);

class Stage {
 public:
  // `along` joins the stages of this replica, by their numbers.
  Stage(Body body, const StageOptions& options, comm::GroupPtr along, Source source, const MakeStrategy& make_strategy);

  // Step t (from 1): all this stage does up to its update t, with this learning rate. Returns the mean loss of the
  // step's minibatch on the last stage; throws if that is not finite.
  std::optional<double> step(int64_t t, double lr);

  // The newest weights.
  at::Tensor newest() const { return ring_[done_ % std::ssize(ring_)]; }
  // Computes something with other weights (an evaluation); the stage goes on with its own.
  void with(const at::Tensor& weights, const std::function<void()>& f);
  dp::Strategy& strategy() { return *strategy_; }
  const optim::Layout& layout() const { return weights_.layout(); }
  const Body& body() const { return body_; }
  bool first() const { return index_ == 0; }
  bool last() const { return index_ == options_.schedule.stages - 1; }
  int64_t steps_done() const { return done_; }

  // Between steps, on all stages together (every stage has done step t): all versions, the inputs it keeps, and what
  // the stage before has sent already.
  State state();
  void load(const State& state);
  // After the last step: waits for what is under way, and ends on the weights all replicas agree on.
  void finish();

  double exposed_s() const;  // waiting for neighbours and replicas
  Held held_most() const { return most_; }
  void record(const TracePtr& trace);

 private:
  void forward(int64_t batch);
  void backward(int64_t batch);
  void update(int64_t t, double lr);
  void bind(int64_t version);
  Rows rows(int64_t batch);  // of a microbatch
  int64_t inputs_ahead(int stage) const;

  Body body_;
  const StageOptions options_;
  const int index_;
  const Source source_;
  optim::Flat weights_;
  dp::StrategyPtr strategy_;
  std::vector<at::Tensor> ring_;                                   // version v is in v mod its size
  std::map<int64_t, at::Tensor> inputs_;                           // from F to B
  std::map<int64_t, std::vector<std::function<void()>>> put_off_;  // from B to W
  std::unique_ptr<Border> up_, down_;                              // towards stage 0, towards the last
  int64_t done_ = 0;                                               // updates
  int64_t bound_ = -1;                                             // version the model computes with now
  bool announces_ = false;                                         // this backward completes gradients
  double loss_ = 0;                                                // of this step so far
  std::optional<std::pair<int64_t, Rows>> drawn_;                  // the last step's rows
  Held most_;
  TracePtr trace_;
};

}  // namespace thinwire::pipeline
