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
  bool skip = false;           // an overflow all ranks agreed on: no update, but exchanges go on
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

// Adds a number up over the ranks that share one replica's weights; the identity where nothing is sharded.
using SumOverShards = std::function<double(double)>;

}  // namespace thinwire::optim
