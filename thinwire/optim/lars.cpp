#include "thinwire/optim/lars.h"

#include <ATen/ops/zeros.h>

#include <cmath>

#include "thinwire/kernels/reduce.h"
#include "thinwire/kernels/sgd.h"

namespace thinwire::optim {

Lars::Lars(const Layout& layout, const LarsOptions& options)
    : layout_(layout), options_(options), m_(at::zeros({layout.numel}, at::kFloat)) {}

void Lars::apply(const Update& u) {
  for (const Piece& piece : layout_.pieces) {
    auto part = [&](const at::Tensor& t) { return t.narrow(0, piece.at, piece.numel); };
    const double wd = piece.group == kDecayed ? options_.weight_decay : 0;
    const double x = std::sqrt(kernels::sum_squares(part(u.x))), g = std::sqrt(kernels::sum_squares(part(u.grad)));
    const double lambda = x > 0 && g > 0 ? options_.eta * x / (g + wd * x) : 1;
    // m is kept in units of the step: scaling g and wd by lr lambda makes the SGD pass do it, with a rate of 1.
    const double rate = u.lr[piece.group] * lambda;
    part(u.grad).mul_(static_cast<float>(rate));
    kernels::sgd(
        u.next.mutable_data_ptr<float>() + piece.at, u.x.const_data_ptr<float>() + piece.at,
        u.grad.const_data_ptr<float>() + piece.at, m_.mutable_data_ptr<float>() + piece.at, piece.numel,
        {.lr = 1, .momentum = static_cast<float>(options_.momentum), .weight_decay = static_cast<float>(rate * wd)});
  }
}

State Lars::state() { return {{"m", {m_, Scope::per_replica}}}; }

void Lars::load(const State& state) { get(state, "m", m_); }

}  // namespace thinwire::optim
