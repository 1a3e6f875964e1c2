#include "thinwire/optim/nadamw.h"

#include <ATen/ops/zeros.h>

#include <cmath>

namespace thinwire::optim {

Nadamw::Nadamw(const Layout& layout, const NadamwOptions& options)
    : spans_(spans(layout)),
      groups_(layout.groups),
      options_(options),
      m_(at::zeros({layout.numel}, layout.options)),
      v_(at::zeros({layout.numel}, layout.options)) {}

double Nadamw::mu(int64_t t) const {
  return options_.betas[0] * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * options_.momentum_decay));
}

kernels::NadamwStep Nadamw::step(int64_t t, double lr, int group) const {
  const double wd = groups_[group].weight_decay * options_.weight_decay;
  return {.moments = kernels::moments(options_.betas, options_.eps),
          .decay = static_cast<float>(1 - lr * wd),
          .rate_g = static_cast<float>(lr * (1 - mu(t)) / (1 - pi_)),
          .rate_m = static_cast<float>(lr * mu(t + 1) / (1 - pi_ * mu(t + 1))),
          .root = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.betas[1], static_cast<double>(t))))};
}

void Nadamw::apply(const Update& u) {
  pi_ *= mu(u.t);
  for (const Span& span : spans_)
    kernels::nadamw(u.next, u.x, u.grad, m_, v_, span.range(), step(u.t, u.lr[span.group], span.group));
}

State Nadamw::state() {
  State state{{"m", {m_, Scope::per_replica}}, {"v", {v_, Scope::per_replica}}};
  put(state, "pi", pi_, Scope::per_replica);
  return state;
}

void Nadamw::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
  pi_ = get_double(state, "pi", 0, 1);
}

}  // namespace thinwire::optim
