#include "thinwire/optim/adamw.h"

#include <ATen/ops/zeros.h>

#include <cmath>

namespace thinwire::optim {

Adamw::Adamw(const Layout& layout, const AdamwOptions& options)
    : spans_(spans(layout)),
      groups_(layout.groups),
      options_(options),
      m_(at::zeros({layout.numel}, at::kFloat)),
      v_(at::zeros({layout.numel}, at::kFloat)) {}

kernels::AdamwStep adamw_step(const AdamwOptions& o, int64_t t, double lr, double decay_share) {
  const auto [b1, b2] = o.betas;
  const double c1 = o.bias_correction ? 1 - std::pow(b1, static_cast<double>(t)) : 1;
  const double c2 = o.bias_correction ? 1 - std::pow(b2, static_cast<double>(t)) : 1;
  const double wd = decay_share * o.weight_decay;
  return {
      .beta1 = static_cast<float>(b1),
      .one_minus_beta1 = static_cast<float>(1 - b1),
      .beta2 = static_cast<float>(b2),
      .one_minus_beta2 = static_cast<float>(1 - b2),
      .decay = static_cast<float>(1 - lr * wd),
      .rate = static_cast<float>(lr / c1),
      .root = static_cast<float>(1 / std::sqrt(c2)),
      .eps = static_cast<float>(o.eps),
  };
}

void Adamw::apply(const Update& u) {
  auto* next = u.next.mutable_data_ptr<float>();
  auto* m = m_.mutable_data_ptr<float>();
  auto* v = v_.mutable_data_ptr<float>();
  const auto* x = u.x.const_data_ptr<float>();
  const auto* g = u.grad.const_data_ptr<float>();
  for (const auto& [at, numel, group] : spans_)
    kernels::adamw(next + at, x + at, g + at, m + at, v + at, numel,
                   adamw_step(options_, u.t, u.lr[group], groups_[group].weight_decay));
}

State Adamw::state() { return {{"m", {m_, Scope::per_replica}}, {"v", {v_, Scope::per_replica}}}; }

void Adamw::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
}

}  // namespace thinwire::optim
