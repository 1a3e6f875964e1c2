#include "thinwire/optim/clip.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "thinwire/base/errors.h"

namespace thinwire::optim {
namespace {

// Remembers the gradient it was given, and that it was asked.
struct Witness final : Rule {
  at::Tensor seen;
  double loaded = 0;
  void apply(const Update& u) override { seen = u.grad.clone(); }
  State state() override {
    State state;
    put(state, "answer", 42.0, Scope::all_equal);
    return state;
  }
  void load(const State& state) override { loaded = get_double(state, "answer"); }
};

at::Tensor clipped(at::Tensor grad, double norm, OverShards over_replica = {}, at::Tensor known = {}) {
  auto rule = std::make_unique<Witness>();
  const Witness& witness = *rule;
  Clip clip(std::move(rule), {}, norm, std::move(over_replica));
  clip.apply({.x = grad, .next = grad, .grad = grad, .lr = {}, .t = 1, .grad_squares = known});
  return witness.seen;
}

at::Tensor three_four() { return at::tensor({3.f, 0.f, -4.f}); }  // norm 5

TEST(Clip, ScalesTheGradientToTheNorm) {
  EXPECT_TRUE(at::allclose(clipped(three_four(), 1), at::tensor({0.6f, 0.f, -0.8f}), 1e-6));
  EXPECT_TRUE(at::equal(clipped(three_four(), 2.5), three_four().mul_(2.5f / (5 + 1e-6f))));
}

TEST(Clip, ChangesNothingUpToTheNorm) {
  for (double norm : {5.0, 6.0, 1e30, std::numeric_limits<double>::infinity()})
    EXPECT_TRUE(at::equal(clipped(three_four(), norm), three_four())) << norm;
  EXPECT_TRUE(at::equal(clipped(at::zeros({3}), 1), at::zeros({3})));
}

TEST(Clip, TheNormIsSummedInFp64) {
  at::Tensor grad = at::ones({1'000'000}, at::kFloat);
  grad[0] = 4096;  // a norm of 4216.5; in fp32 the ones would vanish beside 2^24, and it would be 4096
  EXPECT_TRUE(at::equal(clipped(grad.clone(), 4217), grad));
  const float norm = static_cast<float>(std::sqrt(0x1p24 + 999'999));
  EXPECT_GT(norm, 4216);
  EXPECT_TRUE(at::equal(clipped(grad.clone(), 4200), grad * (4200 / (norm + 1e-6f))));
}

TEST(Clip, TheNormIsThatOfTheWholeReplica) {
  double asked = 0;
  const auto with_others = [&](at::Tensor squares, Over how) {  // norm 10 in all
    EXPECT_EQ(how, Over::sum);
    asked = squares.item<double>(), squares.add_(75);
  };
  EXPECT_TRUE(at::allclose(clipped(three_four(), 1, with_others), three_four().div_(10), 1e-6));
  EXPECT_EQ(asked, 25);
}

TEST(Clip, ANormThatIsKnownIsNotComputedAgain) {
  const auto never = [](at::Tensor, Over) { FAIL() << "the norm was there already"; };
  const at::Tensor known = at::scalar_tensor(100.0, at::kDouble);
  EXPECT_TRUE(at::allclose(clipped(three_four(), 1, never, known), three_four().div_(10), 1e-6));
}

TEST(Clip, WhatAnotherRankHoldsTooIsCountedOnce) {
  Layout layout = make_layout({{at::empty({2})}, {at::empty({3})}});
  layout.pieces[1].duplicate = true;
  at::Tensor grad = at::zeros({layout.numel});
  grad.narrow(0, 0, 2).fill_(3), grad.narrow(0, layout.pieces[1].at, 3).fill_(100);
  EXPECT_EQ(sum_squares(layout, grad), 18);
  auto rule = std::make_unique<Witness>();
  const Witness& witness = *rule;
  Clip clip(std::move(rule), layout, 5);
  clip.apply({.x = grad, .next = grad, .grad = grad, .lr = {}, .t = 1});
  EXPECT_EQ(witness.seen[0].item<float>(), 3) << "a norm of 4.24 is below 5";
}

TEST(Clip, ANanIsPassedOn) {
  const at::Tensor grad = at::tensor({std::numeric_limits<float>::quiet_NaN(), 2.f});
  EXPECT_TRUE(clipped(grad, 1).isnan()[0].item<bool>());
}

TEST(Clip, ItsStateIsTheInnerRules) {
  auto rule = std::make_unique<Witness>();
  const Witness& witness = *rule;
  Clip clip(std::move(rule), {}, 1);
  EXPECT_EQ(clip.state().size(), 1u);
  clip.load(clip.state());
  EXPECT_EQ(witness.loaded, 42);
}

TEST(Clip, ANormThatIsNotAboveZeroIsAnError) {
  for (double norm : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) EXPECT_ANY_THROW(Clip(nullptr, {}, norm));
  try {
    Clip(nullptr, {}, -1);
  } catch (const std::exception& error) {
    EXPECT_EQ(one_line(error), "[optim.clip] the norm must be above 0, got -1");
  }
}

}  // namespace
}  // namespace thinwire::optim
