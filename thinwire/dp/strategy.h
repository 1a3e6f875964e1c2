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
// the options only. A lost or stuck peer throws comm::PeerLost or comm::Timeout from step() or finish(); the strategy
// is of no further use then, and a new one loads the last checkpoint.
//
// To add a method: derive from Strategy, and add its options and name to catalog.h. It owns its rule and buffers; the
// weights and the gradient are the caller's (optim::Flat), and only step() and finish() may write them. Weights are
// never looped over here: that is what kernels are for.
//
// What a caller may want to know of a kind of strategy before there is one (does it own its update rule? how long is a
// round?) is a value that its options give: Traits, in traits.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "thinwire/base/state.h"
#include "thinwire/comm/group.h"
#include "thinwire/dp/meter.h"
#include "thinwire/dp/staleness_probe.h"
#include "thinwire/optim/rule.h"

namespace thinwire::dp {

// The ranks a strategy communicates with, and what is measured of it.
struct Groups {
  comm::GroupPtr sync;                  // the same part of every replica
  optim::OverShards over_replica = {};  // all ranks that hold a part of this replica: norms of the whole
  optim::OverShards over_shards = {};   // those that hold parts of the same tensors: norms of a tensor
  comm::GroupPtr control = {};   // the ranks of sync, for what is not training and without emulated links; null: sync
  MeterPtr meter = {};           // counts waits; null: they are not counted
  StalenessProbePtr probe = {};  // measures what delay costs; null: it is not measured
};

// Squared norms of one step's gradient: of this rank's own, and of the mean over all ranks.
struct GradientNorms {
  double local = 0, mean = 0;
};

class Strategy {
 public:
  virtual ~Strategy() = default;

  // The gradient of a piece of the layout is complete. From backward hooks, any thread; once a piece and step. A piece
  // that was not announced counts as ready at step().
  virtual void grad_ready(int piece) {}
  // One step: reads update.x and update.grad, writes update.next: the inner rule is applied (or not, where
  // update.skip), what is due lands, what is next is launched. Blocks only for what is due and has not arrived.
  virtual void step(const optim::Update& update) = 0;
  // Blocks until the exchanges in flight have arrived; none is applied by that.
  virtual void drain() {}
  // Applies what is in flight; writes the weights all replicas agree on into x. Training may go on afterwards.
  virtual void finish(at::Tensor x) = 0;
  // The weights to evaluate or save, equal on all ranks; x is left alone. The result may alias x or the strategy's own
  // memory and is good until the next step. Collective.
  virtual at::Tensor consensus(at::Tensor x) = 0;

  // Of the last step, where the strategy has both anyway: the gradient noise scale comes from them.
  virtual std::optional<GradientNorms> norms() const { return {}; }

  // All that decides the weights: momenta, counters, what is in flight (waited for, saved unapplied), the rule's state
  // under "rule.". Entries alias live memory: copy or write them before the next step. load() needs equal options, and
  // a sync group of the same size; c10::Error where an entry is missing or does not fit.
  virtual State state() = 0;
  virtual void load(const State& state) = 0;

 protected:
  explicit Strategy(Groups groups);
  void wait(comm::Work& work) { groups_.meter->wait(work); }
  void apply(optim::Rule& rule, const optim::Update& with);  // or copies the weights, where the update is skipped

  Groups groups_;  // control and meter are never null
};
using StrategyPtr = std::unique_ptr<Strategy>;

}  // namespace thinwire::dp
