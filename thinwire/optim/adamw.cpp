#include "thinwire/optim/adamw.h"

#include <ATen/ops/zeros.h>

#include <cmath>

#include "thinwire/kernels/adamw.h"

namespace thinwire::optim {

Adamw::Adamw(const Layout& layout, const AdamwOptions& options)
    : spans_(spans(layout)),
      options_(options),
      m_(at::zeros({layout.numel}, at::kFloat)),
      v_(at::zeros({layout.numel}, at::kFloat)) {}

void Adamw::apply(const Update& u) {
  const auto [b1, b2] = options_.betas;
  const double t = static_cast<double>(u.t);
  const double c1 = options_.bias_correction ? 1 - std::pow(b1, t) : 1;
  const double c2 = options_.bias_correction ? 1 - std::pow(b2, t) : 1;
  auto* next = u.next.mutable_data_ptr<float>();
  auto* m = m_.mutable_data_ptr<float>();
  auto* v = v_.mutable_data_ptr<float>();
  const auto* x = u.x.const_data_ptr<float>();
  const auto* g = u.grad.const_data_ptr<float>();
  for (const auto& [at, numel, group] : spans_) {
    const double lr = u.lr[group], wd = group == kDecayed ? options_.weight_decay : 0;
    const kernels::AdamwStep step{
        .beta1 = static_cast<float>(b1),
        .one_minus_beta1 = static_cast<float>(1 - b1),
        .beta2 = static_cast<float>(b2),
        .one_minus_beta2 = static_cast<float>(1 - b2),
        .decay = static_cast<float>(1 - lr * wd),
        .rate = static_cast<float>(lr / c1),
        .root = static_cast<float>(1 / std::sqrt(c2)),
        .eps = static_cast<float>(options_.eps),
    };
    kernels::adamw(next + at, x + at, g + at, m + at, v + at, numel, step);
  }
}

State Adamw::state() { return {{"m", {m_, Scope::per_replica}}, {"v", {v_, Scope::per_replica}}}; }

void Adamw::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
}

}  // namespace thinwire::optim
