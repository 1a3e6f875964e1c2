#include "thinwire/dp/freeze.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "thinwire/dp/steps_or_auto.h"
#include "thinwire/kernels/host_span.h"

namespace thinwire::dp {

void read(const Value& value, const std::string& name, Freeze& freeze, const Limit& limit) {
  freeze.automatic = read_steps_or_auto(value, name, freeze.step, limit);
}

Value to_value(const Freeze& freeze) { return steps_or_auto(freeze.automatic, freeze.step); }

FreezeWatch::FreezeWatch(const Freeze& freeze, double beta2, int64_t lr_warmup_steps, int64_t tensors)
    : freeze_(freeze), lr_warmup_steps_(lr_warmup_steps) {
  const auto steps = std::clamp<int64_t>(std::llround(1 / (1 - beta2)), 1, 1'000'000);
  sums_ = at::zeros({freeze.automatic ? steps : 0, tensors}, at::kDouble);
}

bool FreezeWatch::due(int64_t t, std::span<const double> v_sums) {
  if (!freeze_.automatic) return t >= freeze_.step;
  const auto then = kernels::host_span<double>(sums_).subspan(t % sums_.size(0) * sums_.size(1), sums_.size(1));
  double before = 0, now = 0, alike = 0, tensors = 0;
  for (size_t l = 0; l < v_sums.size(); ++l) {
    before += then[l], now += v_sums[l];
    if (v_sums[l] > 0) alike += std::min(then[l], v_sums[l]) / std::max(then[l], v_sums[l]), ++tensors;
    then[l] = v_sums[l];
  }
  return t > sums_.size(0) && t >= lr_warmup_steps_ && tensors > 0 && before >= 0.96 * now && alike >= 0.9 * tensors;
}

void FreezeWatch::put(State& state, const std::string& prefix) const {
  state[prefix + "v_sums"] = {sums_, Scope::all_equal};
}

void FreezeWatch::get(const State& state, const std::string& prefix) { thinwire::get(state, prefix + "v_sums", sums_); }

}  // namespace thinwire::dp
