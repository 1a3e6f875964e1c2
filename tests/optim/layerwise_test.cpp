// LAMB and LARS: every tensor takes a step in proportion to its own size.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/optim/small_layout.h"
#include "thinwire/optim/lamb.h"
#include "thinwire/optim/lars.h"

namespace thinwire::optim {
namespace {

double length(const at::Tensor& x) { return x.norm().item<double>(); }

double relative_error(const at::Tensor& got, const at::Tensor& wanted) {
  return length(got.to(at::kDouble) - wanted) / length(wanted);
}

template <class Step>  // step(w, g, piece, t) of one tensor, in fp64
at::Tensor plain(Step&& step) {
  at::Tensor x = numbers("x").to(at::kDouble);
  for (int64_t t = 1; t <= 20; ++t) {
    const at::Tensor g = numbers("gradient", 100 * t).to(at::kDouble);
    for (const Piece& piece : kLayout.pieces)
      step(x.narrow(0, piece.at, piece.numel), g.narrow(0, piece.at, piece.numel), piece, t);
  }
  return x;
}

TEST(Lamb, EqualsTheFormulaInFp64Over20Steps) {
  for (bool correction : {false, true}) {
    const LambOptions options{.bias_correction = correction, .trust = {0.5, 1.2}};
    at::Tensor m = at::zeros({kLayout.numel}, at::kDouble), v = at::zeros_like(m);
    const at::Tensor wanted = plain([&](at::Tensor w, at::Tensor g, const Piece& piece, int64_t t) {
      at::Tensor pm = m.narrow(0, piece.at, piece.numel), pv = v.narrow(0, piece.at, piece.numel);
      pm.copy_(0.9 * pm + 0.1 * g);
      pv.copy_(0.95 * pv + 0.05 * g * g);
      const double decay = piece.group == kDecayed ? options.weight_decay : 0;
      const at::Tensor u = pm / (pv.sqrt() + options.eps) + decay * w;
      const double c = std::clamp(length(w) / length(u), 0.5, 1.2);
      const double factor = correction ? std::sqrt(1 - std::pow(0.95, t)) / (1 - std::pow(0.9, t)) : 1;
      w.sub_(kLr[piece.group] * factor * c * u);
    });
    at::Tensor x = numbers("x");
    Lamb lamb(kLayout, options);
    run(lamb, x, 1, 20);
    EXPECT_LT(relative_error(x, wanted), 1e-6);
  }
}

TEST(Lars, EqualsTheFormulaInFp64Over20Steps) {
  const LarsOptions options{.momentum = 0.8, .weight_decay = 0.1, .eta = 0.5};
  at::Tensor m = at::zeros({kLayout.numel}, at::kDouble);
  const at::Tensor wanted = plain([&](at::Tensor w, at::Tensor g, const Piece& piece, int64_t) {
    at::Tensor pm = m.narrow(0, piece.at, piece.numel);
    const double decay = piece.group == kDecayed ? options.weight_decay : 0;
    const double lambda = options.eta * length(w) / (length(g) + decay * length(w));
    pm.copy_(0.8 * pm + kLr[piece.group] * lambda * (g + decay * w));
    w.sub_(pm);
  });
  at::Tensor x = numbers("x");
  Lars lars(kLayout, options);
  run(lars, x, 1, 20);
  EXPECT_LT(relative_error(x, wanted), 1e-6);
}

TEST(TrustRatio, IsOneWhereANormIsZeroAndBoundedElsewhere) {
  EXPECT_EQ(trust_ratio(0, 4, {0.01, 10}), 1);
  EXPECT_EQ(trust_ratio(4, 0, {0.01, 10}), 1);
  EXPECT_EQ(trust_ratio(9, 4, {0.01, 10}), 1.5);
  EXPECT_EQ(trust_ratio(1e9, 1, {0.01, 10}), 10);
  EXPECT_EQ(trust_ratio(1e-9, 1, {0.01, 10}), 0.01);
}

template <class R, class Options>
void expect_resumes(const Options& options) {
  R straight(kLayout, options), first(kLayout, options), second(kLayout, options);
  at::Tensor x = numbers("x"), y = x.clone();
  run(straight, x, 1, 20);
  run(first, y, 1, 8);
  second.load(first.state());
  run(second, y, 9, 20);
  EXPECT_TRUE(at::equal(x, y));
}

TEST(Lamb, GoesOnFromItsStateToTheBit) { expect_resumes<Lamb>(LambOptions{}); }
TEST(Lars, GoesOnFromItsStateToTheBit) { expect_resumes<Lars>(LarsOptions{}); }

TEST(Lars, ATensorOfZerosMovesByThePlainRate) {
  const Layout layout = make_layout({{at::empty({2})}});
  at::Tensor x = at::zeros({layout.numel}), g = at::zeros({layout.numel});
  g[0] = 3;
  Lars(layout, {.momentum = 0}).apply({.x = x, .next = x, .grad = g, .lr = kLr, .t = 1});
  EXPECT_FLOAT_EQ(x[0].item<float>(), -0.06f);
}

}  // namespace
}  // namespace thinwire::optim
