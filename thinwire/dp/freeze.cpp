#include "thinwire/dp/freeze.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/errors.h"

namespace thinwire::dp {

void read(const Value& value, const std::string& name, Freeze& freeze, const Limit& limit) {
  const auto* text = std::get_if<std::string>(&value);
  if (text && *text != "auto") throw BadInput("{} must be a number of steps or \"auto\", got \"{}\"", name, *text);
  freeze = {text != nullptr, 0};
  if (!text) thinwire::read(value, name, freeze.step, limit);
}

Value to_value(const Freeze& freeze) {
  if (freeze.automatic) return std::string("auto");
  return freeze.step;
}

FreezeWatch::FreezeWatch(const Freeze& freeze, double beta2, int64_t lr_warmup_steps)
    : freeze_(freeze), lr_warmup_steps_(lr_warmup_steps) {
  const auto steps = std::clamp<int64_t>(std::llround(1 / (1 - beta2)), 1, 1'000'000);
  sums_ = at::zeros({freeze.automatic ? steps : 0}, at::kDouble);
}

bool FreezeWatch::due(int64_t t, double v_sum) {
  if (!freeze_.automatic) return t >= freeze_.step;
  double* sums = sums_.mutable_data_ptr<double>();
  double& then = sums[t % sums_.numel()];
  const bool steady = t > sums_.numel() && t >= lr_warmup_steps_ && v_sum > 0 && then >= 0.96 * v_sum;
  then = v_sum;
  return steady;
}

void FreezeWatch::put(State& state, const std::string& prefix) const {
  state[prefix + "v_sums"] = {sums_, Scope::all_equal};
}

void FreezeWatch::get(const State& state, const std::string& prefix) { thinwire::get(state, prefix + "v_sums", sums_); }

}  // namespace thinwire::dp
