#include "thinwire/optim/nadamw.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "tests/optim/small_layout.h"
#include "thinwire/optim/adamw.h"

namespace thinwire::optim {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// The rule as its header writes it, in fp64, with Pi multiplied out anew every time.
at::Tensor plain(const NadamwOptions& o, at::Tensor start, int64_t steps) {
  at::Tensor x = start.to(at::kDouble), m = at::zeros_like(x), v = at::zeros_like(x);
  const auto [b1, b2] = o.betas;
  auto mu = [&, b1 = b1](int64_t t) { return b1 * (1 - 0.5 * std::pow(0.96, t * o.momentum_decay)); };
  auto pi = [&](int64_t t) {
    double product = 1;
    for (int64_t k = 1; k <= t; ++k) product *= mu(k);
    return product;
  };
  for (int64_t t = 1; t <= steps; ++t) {
    const at::Tensor g = gradient(t).to(at::kDouble);
    m = b1 * m + (1 - b1) * g;
    v = b2 * v + (1 - b2) * g * g;
    const at::Tensor q = (v / (1 - std::pow(b2, t))).sqrt() + o.eps;
    const at::Tensor step = (1 - mu(t)) / (1 - pi(t)) * g / q + mu(t + 1) / (1 - pi(t + 1)) * m / q;
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

TEST(Nadamw, ThreeStepsGiveTheKnownAnswers) {
  const Layout layout = make_layout({{at::empty({1, 2})}});
  const float gradients[][2] = {{0.6f, -0.3f}, {-0.2f, 0.1f}, {0.4f, 0.4f}};
  const double ramp[][2] = {{0.989834403, -1.989734403}, {0.992677261, -1.992477271}, {0.987161761, -2.000119662}};
  const double no_ramp[][2] = {{0.984925126, -1.984825126}, {0.984137196, -1.983937206}, {0.976325946, -1.990061943}};
  for (double momentum_decay : {0.004, kInf}) {
    Nadamw rule(layout, {.weight_decay = 0.01, .momentum_decay = momentum_decay});
    const at::Tensor x = at::zeros({layout.numel}), grad = at::zeros({layout.numel});
    float* numbers = x.mutable_data_ptr<float>();
    numbers[0] = 1, numbers[1] = -2;
    for (int64_t t = 1; t <= 3; ++t) {
      for (int i : {0, 1}) grad.mutable_data_ptr<float>()[i] = gradients[t - 1][i];
      rule.apply({.x = x, .next = x, .grad = grad, .lr = kLr, .t = t});
      for (int i : {0, 1}) EXPECT_NEAR(numbers[i], (momentum_decay < kInf ? ramp : no_ramp)[t - 1][i], 3e-7) << t;
    }
  }
}

TEST(Nadamw, EqualsTheFormulaInFp64Over20Steps) {
  for (double momentum_decay : {0.004, 1.0, kInf}) {
    for (double weight_decay : {0.0, 0.1}) {
      const NadamwOptions options{.weight_decay = weight_decay, .momentum_decay = momentum_decay};
      Nadamw rule(kLayout, options);
      const at::Tensor x = numbers("x");
      run(rule, x, 1, 20);
      EXPECT_LT(relative_error(x, plain(options, numbers("x"), 20)), 1e-6);
    }
  }
}

TEST(Nadamw, WithoutMomentumIsAdamwWithoutMomentum) {
  Nadamw nadamw(kLayout, {.betas = {0, 0.95}});
  Adamw adamw(kLayout, {.betas = {0, 0.95}});
  const at::Tensor x = numbers("x"), wanted = x.clone();
  run(nadamw, x, 1, 5);
  run(adamw, wanted, 1, 5);
  EXPECT_TRUE(at::equal(x, wanted));
}

TEST(Nadamw, OnlyMatricesDecay) {
  Nadamw rule(kLayout, {.weight_decay = 0.5});
  const at::Tensor before = numbers("x"), x = before.clone();
  rule.apply({.x = x, .next = x, .grad = at::zeros_like(x), .lr = kLr, .t = 1});
  for (const Piece& piece : kLayout.pieces) {
    const float kept = piece.group == kDecayed ? static_cast<float>(1 - 0.01 * 0.5) : 1;
    EXPECT_TRUE(at::equal(x.narrow(0, piece.at, piece.numel), before.narrow(0, piece.at, piece.numel) * kept));
  }
}

TEST(Nadamw, WritesOnlyNextAndTheSameNumbersAsInPlace) {
  Nadamw one(kLayout, {}), two(kLayout, {});
  at::Tensor x = numbers("x"), next = at::zeros_like(x);
  const at::Tensor in_place = x.clone();
  for (int64_t t = 1; t <= 3; ++t) {
    const at::Tensor before = x.clone(), grad = gradient(t);
    one.apply({.x = x, .next = next, .grad = grad, .lr = kLr, .t = t});
    run(two, in_place, t, t);
    EXPECT_TRUE(at::equal(next, in_place));
    EXPECT_TRUE(at::equal(x, before));
    EXPECT_TRUE(at::equal(grad, gradient(t)));
    std::swap(x, next);
  }
}

TEST(Nadamw, PaddingStaysZero) {
  Nadamw rule(kLayout, {});
  const at::Tensor x = numbers("x");
  run(rule, x, 1, 3);
  EXPECT_EQ(x.count_nonzero().item<int64_t>(), 30 * 40 + 50 + 600);
}

TEST(Nadamw, ASavedStateContinuesToTheBit) {
  Nadamw straight(kLayout, {}), resumed(kLayout, {});
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
