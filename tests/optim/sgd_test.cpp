#include "thinwire/optim/sgd.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "tests/optim/small_layout.h"

namespace thinwire::optim {
namespace {

// Heavy-ball momentum with coupled weight decay, in fp64.
at::Tensor plain(const SgdOptions& o, at::Tensor start, int64_t steps) {
  at::Tensor x = start.to(at::kDouble), m = at::zeros_like(x);
  for (int64_t t = 1; t <= steps; ++t) {
    const at::Tensor g = gradient(t).to(at::kDouble);
    for (const Piece& piece : kLayout.pieces) {
      at::Tensor w = x.narrow(0, piece.at, piece.numel), momentum = m.narrow(0, piece.at, piece.numel);
      const double decay = piece.group == kDecayed ? o.weight_decay : 0;
      momentum.mul_(o.momentum).add_(g.narrow(0, piece.at, piece.numel) + decay * w);
      w.sub_(kLr[piece.group] * momentum);
    }
  }
  return x;
}

double relative_error(const at::Tensor& got, const at::Tensor& wanted) {
  return ((got.to(at::kDouble) - wanted).norm() / wanted.norm()).item<double>();
}

TEST(Sgd, EqualsTheFormulaInFp64Over20Steps) {
  for (double momentum : {0.0, 0.9}) {
    for (double weight_decay : {0.0, 0.1}) {
      const SgdOptions options{momentum, weight_decay};
      Sgd rule(kLayout, options);
      const at::Tensor x = numbers("x");
      run(rule, x, 1, 20);
      EXPECT_LT(relative_error(x, plain(options, numbers("x"), 20)), 1e-6) << momentum << " " << weight_decay;
    }
  }
}

TEST(Sgd, OnlyMatricesDecay) {
  Sgd rule(kLayout, {.momentum = 0, .weight_decay = 0.5});
  const at::Tensor before = numbers("x"), x = before.clone();
  rule.apply({.x = x, .next = x, .grad = at::zeros_like(x), .lr = kLr, .t = 1});
  for (const Piece& piece : kLayout.pieces) {
    const at::Tensor was = before.narrow(0, piece.at, piece.numel), is = x.narrow(0, piece.at, piece.numel);
    EXPECT_EQ(at::equal(is, was), piece.group == kUndecayed);
    EXPECT_TRUE(at::allclose(is, was * (piece.group == kDecayed ? 1 - 0.01 * 0.5 : 1)));
  }
}

TEST(Sgd, WritesOnlyNextAndTheSameNumbersAsInPlace) {
  for (double momentum : {0.0, 0.9}) {
    Sgd one(kLayout, {.momentum = momentum}), two(kLayout, {.momentum = momentum});
    const at::Tensor before = numbers("x"), x = before.clone(), in_place = before.clone(), next = at::zeros_like(x);
    one.apply({.x = x, .next = next, .grad = gradient(1), .lr = kLr, .t = 1});
    run(two, in_place, 1, 1);
    EXPECT_TRUE(at::equal(next, in_place));
    EXPECT_TRUE(at::equal(x, before));
  }
}

TEST(Sgd, PaddingStaysZero) {
  Sgd rule(kLayout, {.momentum = 0.9, .weight_decay = 0.1});
  const at::Tensor x = numbers("x");
  run(rule, x, 1, 3);
  EXPECT_EQ(x.count_nonzero().item<int64_t>(), 30 * 40 + 50 + 600);
}

TEST(Sgd, ASavedStateContinuesToTheBit) {
  for (double momentum : {0.0, 0.9}) {
    Sgd straight(kLayout, {.momentum = momentum}), resumed(kLayout, {.momentum = momentum});
    const at::Tensor x = numbers("x");
    run(straight, x, 1, 5);
    const at::Tensor again = x.clone();
    resumed.load(straight.state());
    run(straight, x, 6, 10);
    run(resumed, again, 6, 10);
    EXPECT_TRUE(at::equal(x, again));
  }
}

TEST(Sgd, WithoutMomentumThereIsNothingToRemember) {
  EXPECT_TRUE(Sgd(kLayout, {.momentum = 0}).state().empty());
  EXPECT_EQ(Sgd(kLayout, {.momentum = 0.9}).state().size(), 1u);
}

}  // namespace
}  // namespace thinwire::optim
