#include "thinwire/optim/lamb.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "thinwire/kernels/host_span.h"
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
      m_(at::zeros({layout.numel}, layout.options)),
      v_(at::zeros({layout.numel}, layout.options)),
      norms_(at::zeros({layout.tensors, 2}, at::kDouble)) {}

void Lamb::apply(const Update& u) {
  const auto [b1, b2] = options_.betas;
  const double t = static_cast<double>(u.t);
  const double correction = options_.bias_correction ? std::sqrt(1 - std::pow(b2, t)) / (1 - std::pow(b1, t)) : 1;
  const auto moments = kernels::moments(options_.betas, options_.eps);
  auto step_of = [&](const Piece& piece) {
    const double wd = layout_.groups[piece.group].weight_decay * options_.weight_decay;
    return kernels::LambStep{.moments = moments, .weight_decay = static_cast<float>(wd)};
  };
  const auto norms = kernels::host_span<double>(norms_.zero_());
  for (const Piece& piece : layout_.pieces) {
    const auto own = kernels::lamb_moments(u.x, u.grad, m_, v_, piece.range(), step_of(piece));
    norms[2 * piece.tensor] += own.x;
    norms[2 * piece.tensor + 1] += own.u;
  }
  if (over_shards_) over_shards_(norms_, Over::sum);
  for (const Piece& piece : layout_.pieces) {
    const double c = trust_ratio(norms[2 * piece.tensor], norms[2 * piece.tensor + 1], options_.trust);
    kernels::lamb_apply(u.next, u.x, m_, v_, piece.range(), static_cast<float>(u.lr[piece.group] * correction * c),
                        step_of(piece));
  }
}

State Lamb::state() { return {{"m", {m_, Scope::per_replica}}, {"v", {v_, Scope::per_replica}}}; }

void Lamb::load(const State& state) {
  get(state, "m", m_);
  get(state, "v", v_);
}

}  // namespace thinwire::optim
