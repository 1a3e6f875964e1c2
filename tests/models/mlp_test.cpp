#include "thinwire/models/mlp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

namespace thinwire::models {
namespace {

constexpr int64_t kTime = 24, kChanged = 10;

// Whether the logits at each time are the same after the token at kChanged is replaced.
std::vector<bool> same_after_a_change() {
  const auto model = make_model({.name = "mlp"}, 256, 1);
  const at::Tensor tokens = (at::arange(kTime, at::kLong) * 37).remainder(256).view({1, kTime});
  at::Tensor changed = tokens.clone();
  changed.select(1, kChanged).add_(1).remainder_(256);
  const at::Tensor before = model->forward(tokens), after = model->forward(changed);
  std::vector<bool> same;
  for (int64_t t = 0; t < kTime; ++t) same.push_back(at::equal(before.select(1, t), after.select(1, t)));
  return same;
}

TEST(Mlp, ATokenIsSeenByItselfAndTheRestOfItsWindowAndByNoOther) {
  const std::vector<bool> same = same_after_a_change();
  for (int64_t t = 0; t < kTime; ++t) EXPECT_EQ(same[t], t < kChanged || t >= kChanged + kWindow) << "at " << t;
}

TEST(Mlp, TheOrderOfTheWindowMatters) {
  const auto model = make_model({.name = "mlp"}, 256, 1);
  const at::Tensor tokens = at::arange(kWindow, at::kLong).view({1, kWindow});
  const at::Tensor swapped = at::cat({tokens.narrow(1, 1, 1), tokens.narrow(1, 0, 1), tokens.slice(1, 2)}, 1);
  const at::Tensor before = model->forward(tokens), after = model->forward(swapped);
  EXPECT_FALSE(before.select(1, kWindow - 1).allclose(after.select(1, kWindow - 1), 0, 1e-6));
}

TEST(Mlp, TheNumberOfHeadsDoesNotMatter) {
  const auto one = make_model({.name = "mlp", .heads = 1}, 256, 0);
  const auto five = make_model({.name = "mlp", .heads = 5}, 256, 0);
  const at::Tensor tokens = at::arange(6, at::kLong).view({2, 3});
  EXPECT_TRUE(at::equal(one->forward(tokens), five->forward(tokens)));
}

TEST(Mlp, ASequenceMayBeLongerThanTheContext) {
  const auto model = make_model({.name = "mlp", .context = 4}, 256, 0);
  EXPECT_EQ(model->forward(at::arange(10, at::kLong).view({1, 10})).sizes(), (std::vector<int64_t>{1, 10, 256}));
}

TEST(Mlp, OnlyItsFirstLayerReadsTheWindow) {
  const auto model = make_model({.name = "mlp", .layers = 3, .width = 16}, 256, 0);
  ASSERT_EQ(model->units.size(), 5u);
  EXPECT_EQ(model->units[1]->parameters[1].tensor.sizes(), (std::vector<int64_t>{16, 16 * kWindow}));
  EXPECT_EQ(model->units[2]->parameters[1].tensor.sizes(), (std::vector<int64_t>{16, 16}));
}

}  // namespace
}  // namespace thinwire::models
