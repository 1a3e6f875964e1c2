// An update rule on one device: gradient in, weights out. It never communicates.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <span>

#include "thinwire/base/state.h"

namespace thinwire::optim {

struct Update {
  at::Tensor x;                // flat fp32 weights, read
  at::Tensor next;             // where the new ones go; usually x itself
  at::Tensor grad;             // flat fp32, may be scaled in place
  std::span<const double> lr;  // by group
  int64_t t = 0;               // counts updates, from 1
  // No update, because the gradient is not finite. Exchanges of weights go on; where gradients are averaged, all ranks
  // have agreed on it, and theirs is left out unless hooks have begun it.
  bool skip = false;
  // Squared norm of the whole replica's gradient, 0-d fp64, where somebody knows it already.
  at::Tensor grad_squares = {};
  // Called when the rule has written `next`, before anything of other replicas lands in it.
  std::function<void()> rule_wrote = {};
};

// The update that is none.
inline void keep(const Update& u) {
  if (!u.next.is_same(u.x)) u.next.copy_(u.x);
}

class Rule {
 public:
  virtual ~Rule() = default;
  virtual void apply(const Update& update) = 0;
  virtual State state() = 0;  // views, not copies: the next apply() shows in them
  virtual void load(const State& state) = 0;
};
using RulePtr = std::unique_ptr<Rule>;

// Replaces fp64 numbers by their sums, or the largest, over ranks that hold parts of one replica; same length on all.
// A tensor, so that a GPU need not wait for the host. An empty function: there is one such rank.
enum class Over { sum, max };
using OverShards = std::function<void(at::Tensor numbers, Over how)>;

}  // namespace thinwire::optim
