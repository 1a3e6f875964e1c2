// The seam of update rules (optimizers) on one device: gradient in, weights out. A rule never communicates; where it
// needs norms over ranks it is given a function (OverShards). Clipping is a Rule around a Rule (clip.h).
//
// Rules see flat vectors (layout.h), so that one pass updates all tensors. To add one: derive from Rule, with the
// formula in the header's head and its arithmetic in kernels/, and add its name to catalog.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>

#include "thinwire/base/state.h"

namespace thinwire::optim {

// One update, for the time of a call. Tensors are flat fp32 vectors of the layout's length.
struct Update {
  at::Tensor x;                // flat fp32 weights, read
  at::Tensor next;             // where the new ones go; usually x itself, otherwise it does not overlap x
  at::Tensor grad;             // flat fp32, may be scaled in place
  std::span<const double> lr;  // by group
  int64_t t = 0;               // counts updates, from 1
  // No update, because the gradient is not finite. Exchanges of weights go on; where gradients are averaged, all ranks
  // have agreed on it, and theirs is left out unless hooks have begun it.
  bool skip = false;
  // Squared norm of the whole replica's gradient, 0-d fp64, where it is known already; undefined otherwise.
  at::Tensor grad_squares = {};
  // Called when the rule has written `next`, before anything of other replicas lands in it.
  std::function<void()> rule_wrote = {};
};

// The update that changes nothing: next = x.
inline void keep(const Update& u) {
  if (!u.next.is_same(u.x)) u.next.copy_(u.x);
}

// Used by one thread. Deterministic: equal updates since construction or load() give equal bits, whatever the number of
// torch threads. Memory is allocated in the constructor, not in apply().
class Rule {
 public:
  virtual ~Rule() = default;
  // Reads update.x and update.grad, writes update.next and the rule's own moments. Not called where update.skip is set.
  // Padding, whose gradient is zero, must stay zero.
  virtual void apply(const Update& update) = 0;
  // Moments and counters by name, for checkpoints: views, not copies, that the next apply() writes to. load() copies
  // them in; c10::Error where one is missing or has another shape or type.
  virtual State state() = 0;
  virtual void load(const State& state) = 0;
};
using RulePtr = std::unique_ptr<Rule>;

// Replaces fp64 numbers by their sums, or the largest, over ranks that hold parts of one replica; same length on all.
// A tensor, so that a GPU need not wait for the host. An empty function: there is one such rank.
enum class Over { sum, max };
using OverShards = std::function<void(at::Tensor numbers, Over how)>;

}  // namespace thinwire::optim
