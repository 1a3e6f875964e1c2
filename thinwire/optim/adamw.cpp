#include "thinwire/optim/adamw.h"

#include <ATen/ops/zeros.h>

#include <cmath>

namespace thinwire::optim {

Adamw::Adamw(const Layout& layout, const AdamwOptions& options)
    : spans_(spans(layout)),
      groups_(layout.groups),
      options_(options),
      m_(at::zeros({layout.numel}, layout.options)),
      v_(at::zeros({layout.numel}, layout.options)) {}

Corrections corrections(const AdamwOptions& o, int64_t t) {
  if (!o.bias_correction) return {};
  return {1 - std::pow(o.betas[0], static_cast<double>(t)), 1 - std::pow(o.betas[1], static_cast<double>(t))};
}

kernels::AdamwStep adamw_step(const kernels::Moments& moments, const Corrections& c, double lr, double weight_decay) {
  return {.moments = moments,
          .decay = static_cast<float>(1 - lr * weight_decay),
          .rate = static_cast<float>(lr / c.first),
          .root = static_cast<float>(1 / std::sqrt(c.second))};
}

void Adamw::apply(const Update& u) {
  const auto moments = kernels::moments(options_.betas, options_.eps);
  const auto c = corrections(options_, u.t);
  for (const Span& span : spans_) {
    const double wd = groups_[span.group].weight_decay * options_.weight_decay;
    kernels::adamw(u.next, u.x, u.grad, m_, v_, span.range(), adamw_step(moments, c, u.lr[span.group], wd));
  }
}

State Adamw::state() { return {{"m", {m_, Scope::per_replica}}, {"v", {v_, Scope::per_replica}}}; }

void Adamw::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
}

}  // namespace thinwire::optim
