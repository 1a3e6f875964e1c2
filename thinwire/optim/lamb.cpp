#include "thinwire/optim/lamb.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "thinwire/kernels/lamb.h"

namespace thinwire::optim {

double trust_ratio(double squares_x, double squares_u, const std::array<double, 2>& trust) {
  if (squares_x == 0 || squares_u == 0) return 1;
  return std::clamp(std::sqrt(squares_x / squares_u), trust[0], trust[1]);
}

Lamb::Lamb(const Layout& layout, const LambOptions& options)
    : layout_(layout),
      options_(options),
      m_(at::zeros({layout.numel}, at::kFloat)),
      v_(at::zeros({layout.numel}, at::kFloat)) {}

void Lamb::apply(const Update& u) {
  const auto [b1, b2] = options_.betas;
  const double t = static_cast<double>(u.t);
  const double correction = options_.bias_correction ? std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t)) : 1;
  for (const Piece& piece : layout_.pieces) {
    const double wd = piece.group == kDecayed ? options_.weight_decay : 0;
    const kernels::LambStep step{
        .beta1 = static_cast<float>(b1),
        .one_minus_beta1 = static_cast<float>(1 - b1),
        .beta2 = static_cast<float>(b2),
        .one_minus_beta2 = static_cast<float>(1 - b2),
        .eps = static_cast<float>(options_.eps),
        .weight_decay = static_cast<float>(wd),
    };
    const float* x = u.x.const_data_ptr<float>() + piece.at;
    float *m = m_.mutable_data_ptr<float>() + piece.at, *v = v_.mutable_data_ptr<float>() + piece.at;
    const auto norms = kernels::lamb_moments(x, u.grad.const_data_ptr<float>() + piece.at, m, v, piece.numel, step);
    const double c = trust_ratio(norms.x, norms.u, options_.trust);
    kernels::lamb_apply(u.next.mutable_data_ptr<float>() + piece.at, x, m, v, piece.numel,
                        static_cast<float>(u.lr[piece.group] * correction * c), step.eps, step.weight_decay);
  }
}

State Lamb::state() { return {{"m", {m_, Scope::per_replica}}, {"v", {v_, Scope::per_replica}}}; }

void Lamb::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
}

}  // namespace thinwire::optim
