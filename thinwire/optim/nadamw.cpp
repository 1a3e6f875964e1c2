#include "thinwire/optim/nadamw.h"

#include <ATen/ops/zeros.h>

#include <cmath>

namespace thinwire::optim {

double NadamwRates::mu(int64_t t) const {
  return options_.betas[0] * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * options_.momentum_decay));
}

kernels::NadamwStep NadamwRates::step(int64_t t, double lr, double decay) const {
  return {.moments = kernels::moments(options_.betas, options_.eps),
          .decay = static_cast<float>(1 - lr * (decay * options_.weight_decay)),
          .rate_g = static_cast<float>(lr * (1 - mu(t)) / (1 - pi_)),
          .rate_m = static_cast<float>(lr * mu(t + 1) / (1 - pi_ * mu(t + 1))),
          .root = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.betas[1], static_cast<double>(t))))};
}

void NadamwRates::put(State& state) const { thinwire::put(state, "pi", pi_, Scope::per_replica); }

void NadamwRates::get(const State& state) { pi_ = get_double(state, "pi", 0, 1); }

Nadamw::Nadamw(const Layout& layout, const NadamwOptions& options)
    : spans_(spans(layout)),
      groups_(layout.groups),
      rates_(options),
      m_(at::zeros({layout.numel}, layout.options)),
      v_(at::zeros({layout.numel}, layout.options)) {}

void Nadamw::apply(const Update& u) {
  rates_.advance(u.t);
  for (const Span& span : spans_)
    kernels::nadamw(u.next, u.x, u.grad, m_, v_, span.range(),
                    rates_.step(u.t, u.lr[span.group], groups_[span.group].weight_decay));
}

State Nadamw::state() {
  State state{{"m", {m_, Scope::per_replica}}, {"v", {v_, Scope::per_replica}}};
  rates_.put(state);
  return state;
}

void Nadamw::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
  rates_.get(state);
}

}  // namespace thinwire::optim
