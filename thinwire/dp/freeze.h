// When does the second moment stay as it is? After a given step, or ("auto") at the first step t after the learning
// rate's warm-up at which it has stopped growing:
//
//   ||v_{t-D}||_1 / ||v_t||_1 >= 0.96,   D = 1 / (1 - beta2)
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "thinwire/base/options.h"
#include "thinwire/base/state.h"

namespace thinwire::dp {

struct Freeze {
  bool automatic = true;
  int64_t step = 0;  // the last step of warm-up, >= 1, where it is not automatic
};
void read(const Value& value, const std::string& name, Freeze& freeze, const Limit& limit);
Value to_value(const Freeze& freeze);

class FreezeWatch {
 public:
  FreezeWatch(const Freeze& freeze, double beta2, int64_t lr_warmup_steps);
  bool automatic() const { return freeze_.automatic; }
  // Whether step t is the last one of warm-up. Called once a step, from t = 1 on; `v_sum` is ||v_t||_1 of the whole
  // model, and not looked at unless it is automatic.
  bool due(int64_t t, double v_sum);

  void put(State& state, const std::string& prefix) const;
  void get(const State& state, const std::string& prefix);

 private:
  const Freeze freeze_;
  const int64_t lr_warmup_steps_;
  at::Tensor sums_;  // of the last D steps: step t at t mod D
};

}  // namespace thinwire::dp
