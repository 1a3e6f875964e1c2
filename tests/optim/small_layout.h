// Weights of a few tensors, and gradients for them: what tests of update rules step over.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "thinwire/base/random.h"
#include "thinwire/optim/layout.h"
#include "thinwire/optim/rule.h"

namespace thinwire::optim {

inline const Layout kLayout = make_layout({{at::empty({30, 40}), at::empty({50})}, {at::empty({600})}});
inline constexpr double kLr[] = {0.01, 0.02};  // decayed, undecayed

// Numbers at the pieces, zeros in the padding.
inline at::Tensor numbers(const char* name, int64_t index = 0) {
  at::Tensor x = at::zeros({kLayout.numel}, at::kFloat);
  for (const Piece& piece : kLayout.pieces)
    x.narrow(0, piece.at, piece.numel).normal_(0, 1, generator(1, name, index++));
  return x;
}
inline at::Tensor gradient(int64_t t) { return numbers("gradient", 100 * t); }

inline void run(Rule& rule, at::Tensor x, int64_t from, int64_t to) {
  for (int64_t t = from; t <= to; ++t) rule.apply({.x = x, .next = x, .grad = gradient(t), .lr = kLr, .t = t});
}

}  // namespace thinwire::optim
