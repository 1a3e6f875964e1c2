#include "thinwire/optim/nadamw.h"

#include <ATen/ops/zeros.h>

#include <cmath>

namespace thinwire::optim {

Nadamw::Nadamw(const Layout& layout, const NadamwOptions& options)
    : spans_(spans(layout)),
      groups_(layout.groups),
      options_(options),
      m_(at::zeros({layout.numel}, at::kFloat)),
      v_(at::zeros({layout.numel}, at::kFloat)) {}

double Nadamw::mu(int64_t t) const {
  return options_.betas[0] * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * options_.momentum_decay));
}

kernels::NadamwStep Nadamw::step(int64_t t, double lr, int group) const {
  const auto [b1, b2] = options_.betas;
  const double wd = groups_[group].weight_decay * options_.weight_decay;
  return {
      .beta1 = static_cast<float>(b1),
      .one_minus_beta1 = static_cast<float>(1 - b1),
      .beta2 = static_cast<float>(b2),
      .one_minus_beta2 = static_cast<float>(1 - b2),
      .decay = static_cast<float>(1 - lr * wd),
      .rate_g = static_cast<float>(lr * (1 - mu(t)) / (1 - pi_)),
      .rate_m = static_cast<float>(lr * mu(t + 1) / (1 - pi_ * mu(t + 1))),
      .root = static_cast<float>(1 / std::sqrt(1 - std::pow(b2, static_cast<double>(t)))),
      .eps = static_cast<float>(options_.eps),
  };
}

void Nadamw::apply(const Update& u) {
  auto* next = u.next.mutable_data_ptr<float>();
  auto* m = m_.mutable_data_ptr<float>();
  auto* v = v_.mutable_data_ptr<float>();
  const auto* x = u.x.const_data_ptr<float>();
  const auto* g = u.grad.const_data_ptr<float>();
  pi_ *= mu(u.t);
  for (const auto& [at, numel, group] : spans_)
    kernels::nadamw(next + at, x + at, g + at, m + at, v + at, numel, step(u.t, u.lr[group], group));
}

State Nadamw::state() {
  State state{{"m", {m_, Scope::per_replica}}, {"v", {v_, Scope::per_replica}}};
  put(state, "pi", pi_, Scope::per_replica);
  return state;
}

void Nadamw::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
  pi_ = get_double(state, "pi");
}

}  // namespace thinwire::optim
