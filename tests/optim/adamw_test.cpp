#include "thinwire/optim/adamw.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/optim/small_layout.h"

namespace thinwire::optim {
namespace {

// Algorithm 2 of 1711.05101, in fp64.
at::Tensor plain(const AdamwOptions& o, at::Tensor start, int64_t steps) {
  at::Tensor x = start.to(at::kDouble), m = at::zeros_like(x), v = at::zeros_like(x);
  const auto [b1, b2] = o.betas;
  for (int64_t t = 1; t <= steps; ++t) {
    const at::Tensor g = gradient(t).to(at::kDouble);
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const double c1 = o.bias_correction ? 1 - std::pow(b1, t) : 1, c2 = o.bias_correction ? 1 - std::pow(b2, t) : 1;
    const at::Tensor step = m / c1 / ((v / c2).sqrt() + o.eps);
    for (const Piece& piece : kLayout.pieces) {
      at::Tensor w = x.narrow(0, piece.at, piece.numel);
      const double lr = kLr[piece.group], decay = piece.group == kDecayed ? o.weight_decay : 0;
      w.sub_(lr * decay * w + lr * step.narrow(0, piece.at, piece.numel));
    }
  }
  return x;
}

double relative_error(const at::Tensor& got, const at::Tensor& wanted) {
  return ((got.to(at::kDouble) - wanted).norm() / wanted.norm()).item<double>();
}

TEST(Adamw, EqualsTheFormulaInFp64Over20Steps) {
  for (bool bias_correction : {true, false}) {
    for (double weight_decay : {0.0, 0.1}) {
      const AdamwOptions options{
          .betas = {0.9, 0.99}, .weight_decay = weight_decay, .bias_correction = bias_correction};
      Adamw rule(kLayout, options);
      const at::Tensor x = numbers("x");
      run(rule, x, 1, 20);
      EXPECT_LT(relative_error(x, plain(options, numbers("x"), 20)), 1e-6);
    }
  }
}

TEST(Adamw, TheFirstStepIsTheSignOfTheGradientTimesLr) {
  Adamw rule(kLayout, {.weight_decay = 0});
  const at::Tensor x = at::zeros({kLayout.numel}, at::kFloat);
  run(rule, x, 1, 1);
  for (const Piece& piece : kLayout.pieces)
    EXPECT_TRUE(at::allclose(x.narrow(0, piece.at, piece.numel),
                             gradient(1).narrow(0, piece.at, piece.numel).sign() * -kLr[piece.group], 1e-4));
}

TEST(Adamw, OnlyMatricesDecay) {
  Adamw rule(kLayout, {.weight_decay = 0.5});
  const at::Tensor before = numbers("x"), x = before.clone();
  rule.apply({.x = x, .next = x, .grad = at::zeros_like(x), .lr = kLr, .t = 1});
  for (const Piece& piece : kLayout.pieces) {
    const float kept = piece.group == kDecayed ? static_cast<float>(1 - 0.01 * 0.5) : 1;
    EXPECT_TRUE(at::equal(x.narrow(0, piece.at, piece.numel), before.narrow(0, piece.at, piece.numel) * kept));
  }
}

TEST(Adamw, WritesOnlyNextAndTheSameNumbersAsInPlace) {
  Adamw one(kLayout, {}), two(kLayout, {});
  const at::Tensor before = numbers("x"), x = before.clone(), in_place = before.clone(), grad = gradient(1);
  const at::Tensor next = at::zeros_like(x);
  one.apply({.x = x, .next = next, .grad = grad, .lr = kLr, .t = 1});
  run(two, in_place, 1, 1);
  EXPECT_TRUE(at::equal(next, in_place));
  EXPECT_TRUE(at::equal(x, before));
  EXPECT_TRUE(at::equal(grad, gradient(1)));
}

TEST(Adamw, PaddingStaysZero) {
  Adamw rule(kLayout, {});
  const at::Tensor x = numbers("x");
  run(rule, x, 1, 3);
  EXPECT_EQ(x.count_nonzero().item<int64_t>(), 30 * 40 + 50 + 600);
}

TEST(Adamw, ASavedStateContinuesToTheBit) {
  Adamw straight(kLayout, {}), resumed(kLayout, {});
  const at::Tensor x = numbers("x");
  run(straight, x, 1, 5);
  const at::Tensor again = x.clone();
  resumed.load(straight.state());
  run(straight, x, 6, 10);
  run(resumed, again, 6, 10);
  EXPECT_TRUE(at::equal(x, again));
}

}  // namespace
}  // namespace thinwire::optim
