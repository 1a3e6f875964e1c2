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

Lamb::Lamb(const Layout& layout, const LambOptions& options, OverShards over_shards)
    : layout_(layout),
      options_(options),
      over_shards_(std::move(over_shards)),
      m_(at::zeros({layout.numel}, at::kFloat)),
      v_(at::zeros({layout.numel}, at::kFloat)),
      norms_(at::zeros({layout.tensors, 2}, at::kDouble)) {}

void Lamb::apply(const Update& u) {
  const auto [b1, b2] = options_.betas;
  const double t = static_cast<double>(u.t);
  const double correction = options_.bias_correction ? std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t)) : 1;
  auto step_of = [&, b1 = b1, b2 = b2](const Piece& piece) {
    return kernels::LambStep{
        .beta1 = static_cast<float>(b1),
        .one_minus_beta1 = static_cast<float>(1 - b1),
        .beta2 = static_cast<float>(b2),
        .one_minus_beta2 = static_cast<float>(1 - b2),
        .eps = static_cast<float>(options_.eps),
        .weight_decay = static_cast<float>(layout_.groups[piece.group].weight_decay * options_.weight_decay),
    };
  };
  auto* norms = norms_.zero_().mutable_data_ptr<double>();
  const auto *x = u.x.const_data_ptr<float>(), *g = u.grad.const_data_ptr<float>();
  auto *m = m_.mutable_data_ptr<float>(), *v = v_.mutable_data_ptr<float>();
  for (const Piece& piece : layout_.pieces) {
    const int64_t at = piece.at;
    const auto own = kernels::lamb_moments(x + at, g + at, m + at, v + at, piece.numel, step_of(piece));
    norms[2 * piece.tensor] += own.x;
    norms[2 * piece.tensor + 1] += own.u;
  }
  if (over_shards_) over_shards_(norms_, Over::sum);
  for (const Piece& piece : layout_.pieces) {
    const int64_t at = piece.at;
    const auto step = step_of(piece);
    const double c = trust_ratio(norms[2 * piece.tensor], norms[2 * piece.tensor + 1], options_.trust);
    kernels::lamb_apply(u.next.mutable_data_ptr<float>() + at, x + at, m + at, v + at, piece.numel,
                        static_cast<float>(u.lr[piece.group] * correction * c), step.eps, step.weight_decay);
  }
}

State Lamb::state() { return {{"m", {m_, Scope::per_replica}}, {"v", {v_, Scope::per_replica}}}; }

void Lamb::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
}

}  // namespace thinwire::optim
