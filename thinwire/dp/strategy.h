// What replicas exchange, and when: the one seam every data-parallel method fits behind.
//
// A trainer does, on every rank:
//     backward();                      gradients land in the flat gradient; grad_ready() is called from hooks
//     strategy.step(update);           the inner rule is applied, what is due lands, what is next is launched
//     ...
//     strategy.finish(x);              all replicas end on the same weights
//
// A strategy is made by all ranks of the sync group together and starts by broadcasting replica 0's weights. Calls are
// collective in the same sense: every rank makes them, in the same order, with the same t. Exchanges run in the
// background; a delay is a declared number of rounds or steps, never an accident of timing, so the weights depend on
// the options only. A lost or stuck peer throws comm::PeerLost or comm::Timeout from step() or finish().
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "thinwire/base/state.h"
#include "thinwire/base/trace.h"
#include "thinwire/comm/group.h"
#include "thinwire/dp/landing.h"
#include "thinwire/optim/rule.h"

namespace thinwire::dp {

// Who a rank talks to.
struct Ranks {
  comm::GroupPtr sync;                   // the same shard of every replica
  optim::SumOverShards sum_over_shards;  // empty: a replica is one rank
  comm::GroupPtr aside = {};             // the same ranks, for what is not training; null: sync
};

// Squared norms of one step's gradient: of this rank's own, and of the mean over all ranks.
struct GradientNorms {
  double local = 0, mean = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // The gradient of a piece of the layout is complete. From backward hooks, any thread.
  virtual void grad_ready(int piece) {}
  virtual void step(const optim::Update& update) = 0;
  // Waits until what is under way has arrived; nothing lands by it.
  virtual void drain() {}
  // Lands what is under way; writes the weights all replicas agree on into x. Training may go on afterwards.
  virtual void finish(at::Tensor x) = 0;
  // The weights to evaluate or save, equal on all ranks; x is left alone. The result may alias x or the strategy's own
  // memory and is good until the next step.
  virtual at::Tensor consensus(at::Tensor x) = 0;

  // Of the last step, where the strategy has both anyway: the gradient noise scale comes from them.
  virtual std::optional<GradientNorms> norms() const { return {}; }

  // Whether the next step's landings are to be judged; a strategy may need one call with `true` before it can.
  void watch(bool yes) {
    watched_ = yes;
    was_watched_ |= yes;
  }
  // Of the last watched landing since the last call, if there was one and it was late. Collective.
  std::optional<double> prediction_error();

  // All that decides the weights: momenta, counters, what is in flight (saved unlanded), the rule's state under
  // "rule.".
  virtual State state() = 0;
  virtual void load(const State& state) = 0;

  // Seconds the calling thread has waited for the wire inside step() and finish().
  double exposed_s() const { return exposed_s_; }
  // Seconds it has spent in the update rule.
  double update_s() const { return update_s_; }
  // From now on these waits are entered in `trace` as well.
  void record(TracePtr trace) { trace_ = std::move(trace); }

 protected:
  void wait(comm::Work& work);                                // counted as exposed
  void update(optim::Rule& rule, const optim::Update& with);  // counted as the rule's
  comm::Group& aside(const Ranks& ranks) const { return ranks.aside ? *ranks.aside : *ranks.sync; }

  bool watched() const { return watched_; }
  bool was_watched() const { return was_watched_; }
  void judge(Landing landing, const Ranks& ranks);

 private:
  double exposed_s_ = 0, update_s_ = 0;
  bool watched_ = false, was_watched_ = false;
  std::optional<Landing> landing_;
  Ranks judges_;
  TracePtr trace_;  // may be null
};
using StrategyPtr = std::unique_ptr<Strategy>;

}  // namespace thinwire::dp
