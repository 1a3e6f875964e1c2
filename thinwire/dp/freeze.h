// When does the second moment stay as it is? After a given step, or ("auto") at the first step t after the learning
// rate's warm-up at which it has resolved. With V = ||v||_1 and D = 1 / (1 - beta2):
//
//   V_{t-D} / V_t >= 0.96 for the whole model, and
//   the smaller of V_{t-D} / V_t and its inverse, averaged over the tensors, >= 0.9
//
// The first is the published rule (2102.02888). Alone it lets the largest gradients decide: in a language model the
// output layer's settle while the other layers have hardly begun to learn, and a freeze there costs tenths of a nat.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "thinwire/base/options.h"
#include "thinwire/base/state.h"

namespace thinwire::dp {

// As an option: a step, or "auto".
struct Freeze {
  bool automatic = true;
  int64_t step = 0;  // the last step of warm-up, >= 1, where it is not automatic
};
void read(const Value& value, const std::string& name, Freeze& freeze, const Limit& limit);
Value to_value(const Freeze& freeze);

// Memory: D numbers a tensor, where automatic. Used by one thread; all ranks ask with equal sums, so all agree.
class FreezeWatch {
 public:
  FreezeWatch(const Freeze& freeze, double beta2, int64_t lr_warmup_steps, int64_t tensors);
  bool automatic() const { return freeze_.automatic; }
  // Whether step t is the last one of warm-up. Called once a step, from t = 1 on; `v_sums` are ||v_t||_1 by tensor, not
  // looked at unless it is automatic.
  bool due(int64_t t, std::span<const double> v_sums);

  void put(State& state, const std::string& prefix) const;
  void get(const State& state, const std::string& prefix);

 private:
  const Freeze freeze_;
  const int64_t lr_warmup_steps_;
  at::Tensor sums_;  // [D, tensors], of the last D steps: step t at t mod D
};

}  // namespace thinwire::dp
