#include "thinwire/optim/lars.h"

#include <ATen/ops/zeros.h>

#include <cmath>

#include "thinwire/kernels/host_span.h"
#include "thinwire/kernels/reduce.h"
#include "thinwire/kernels/sgd.h"

namespace thinwire::optim {

Lars::Lars(const Layout& layout, const LarsOptions& options, OverShards over_shards)
    : layout_(layout),
      options_(options),
      over_shards_(std::move(over_shards)),
      m_(at::zeros({layout.numel}, layout.options)),
      norms_(at::zeros({layout.tensors, 2}, at::kDouble)) {}

void Lars::apply(const Update& u) {
  const auto norms = kernels::host_span<double>(norms_.zero_());
  for (const Piece& piece : layout_.pieces) {
    norms[2 * piece.tensor] += kernels::sum_squares(u.x, piece.range());
    norms[2 * piece.tensor + 1] += kernels::sum_squares(u.grad, piece.range());
  }
  if (over_shards_) over_shards_(norms_, Over::sum);
  for (const Piece& piece : layout_.pieces) {
    const double wd = layout_.groups[piece.group].weight_decay * options_.weight_decay;
    const double x = std::sqrt(norms[2 * piece.tensor]), g = std::sqrt(norms[2 * piece.tensor + 1]);
    const double lambda = x > 0 && g > 0 ? options_.eta * x / (g + wd * x) : 1;
    // m is kept in units of the step: scaling g and wd by lr lambda makes the SGD pass do it, with a rate of 1.
    const double rate = u.lr[piece.group] * lambda;
    u.grad.narrow(0, piece.at, piece.numel).mul_(static_cast<float>(rate));
    kernels::sgd(
        u.next, u.x, u.grad, m_, piece.range(),
        {.lr = 1, .momentum = static_cast<float>(options_.momentum), .weight_decay = static_cast<float>(rate * wd)});
  }
}

State Lars::state() { return {{"m", {m_, Scope::per_replica}}}; }

void Lars::load(const State& state) { get(state, "m", m_); }

}  // namespace thinwire::optim
