#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "thinwire/base/errors.h"
#include "thinwire/models/head.h"
#include "thinwire/models/model.h"

namespace thinwire::models {
namespace {

at::Tensor some_tokens(int64_t rows, int64_t time, int64_t salt = 0) {
  return (at::arange(rows * time, at::kLong) * 37 + 11 + salt).remainder(256).view({rows, time});
}

at::Tensor parameter(const Model& model, const std::string& name) {
  for (const auto& unit : model.units)
    for (const auto& p : unit->parameters)
      if (p.name == name) return p.tensor;
  throw std::out_of_range(name);
}

TEST(Gpt, HasAUnitForTheEmbeddingForEachBlockAndForTheHead) {
  EXPECT_EQ(make_model({.layers = 3}, 256, 0)->units.size(), 5u);
}

TEST(Gpt, NamesAndShapesOfItsParametersAreThoseOfTheHeader) {
  const auto model = make_model({.layers = 1, .width = 8, .heads = 2, .context = 16}, 256, 0);
  std::vector<std::pair<std::string, std::vector<int64_t>>> found;
  for (const auto& unit : model->units)
    for (const auto& p : unit->parameters) found.emplace_back(p.name, p.tensor.sizes().vec());
  const decltype(found) wanted = {{"embedding.tokens", {256, 8}},
                                  {"embedding.positions", {16, 8}},
                                  {"blocks.0.attention.norm", {8}},
                                  {"blocks.0.attention.qkv", {24, 8}},
                                  {"blocks.0.attention.out", {8, 8}},
                                  {"blocks.0.mlp.norm", {8}},
                                  {"blocks.0.mlp.up", {32, 8}},
                                  {"blocks.0.mlp.down", {8, 32}},
                                  {"head.norm", {8}},
                                  {"head.linear", {256, 8}}};
  EXPECT_EQ(found, wanted);
}

TEST(Gpt, ALaterTokenDoesNotChangeAnEarlierLogit) {
  const auto model = make_model({.context = 16}, 256, 1);
  const at::Tensor tokens = some_tokens(2, 16);
  at::Tensor changed = tokens.clone();
  changed.narrow(1, 9, 7).add_(1).remainder_(256);
  const at::Tensor before = model->forward(tokens), after = model->forward(changed);
  EXPECT_TRUE(before.narrow(1, 0, 9).allclose(after.narrow(1, 0, 9), 0, 1e-6));
  EXPECT_FALSE(before.narrow(1, 9, 7).allclose(after.narrow(1, 9, 7), 0, 1e-6));
}

TEST(Gpt, AnEarlierTokenChangesALaterLogitHoweverFar) {
  const auto model = make_model({.context = 64}, 256, 1);
  const at::Tensor tokens = some_tokens(1, 64);
  at::Tensor changed = tokens.clone();
  changed.select(1, 0).add_(1);
  EXPECT_FALSE(at::equal(model->forward(tokens).select(1, 63), model->forward(changed).select(1, 63)));
}

// The slow twin: scores, mask, softmax and sum written out, one head after the other.
TEST(Gpt, AttentionIsTheSoftmaxOfMaskedScaledScores) {
  const int64_t B = 2, T = 5, H = 2, D = 4, W = H * D;
  const auto model = make_model({.layers = 1, .width = W, .heads = H, .context = T}, 256, 3);
  parameter(*model, "blocks.0.mlp.down").detach().zero_();  // leaves x + attention(norm(x))
  parameter(*model, "blocks.0.attention.qkv").detach().mul_(50);
  const at::Tensor x = model->units[0]->forward(some_tokens(B, T));
  const at::Tensor qkv =
      at::linear(norm(x, parameter(*model, "blocks.0.attention.norm")), parameter(*model, "blocks.0.attention.qkv"));
  at::Tensor mixed = at::zeros_like(x);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t t = 0; t < T; ++t) {
        const at::Tensor q = qkv[b][t].narrow(0, h * D, D);
        const at::Tensor past = qkv[b].narrow(0, 0, t + 1);
        const at::Tensor k = past.narrow(1, W + h * D, D), v = past.narrow(1, 2 * W + h * D, D);
        mixed[b][t].narrow(0, h * D, D).copy_(at::softmax(k.mv(q) / std::sqrt(double(D)), 0).matmul(v));
      }
  const at::Tensor wanted = x + at::linear(mixed, parameter(*model, "blocks.0.attention.out"));
  EXPECT_TRUE(model->units[1]->forward(x).allclose(wanted, 1e-5, 1e-6));
}

TEST(Gpt, ASequenceMayBeShorterThanTheContext) {
  const auto model = make_model({.context = 16}, 256, 1);
  const at::Tensor tokens = some_tokens(2, 16);
  EXPECT_TRUE(model->forward(tokens.narrow(1, 0, 5)).allclose(model->forward(tokens).narrow(1, 0, 5), 0, 1e-6));
}

TEST(Gpt, ASequenceLongerThanTheContextIsAnError) {
  try {
    make_model({.context = 16}, 256, 1)->forward(some_tokens(1, 17));
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_EQ(one_line(error), "[models.gpt] a sequence must be at most context = 16 tokens, got 17");
  }
}

TEST(Gpt, AWidthThatIsNotAMultipleOfHeadsIsBadInput) {
  try {
    make_model({.width = 64, .heads = 5}, 256, 0);
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_STREQ(error.what(), "model.width must be a multiple of model.heads, got 64 and 5");
  }
}

TEST(Gpt, ResidualProjectionsStartSmallerTheDeeperTheModel) {
  const auto model = make_model({.layers = 8, .width = 128, .heads = 2}, 256, 5);
  EXPECT_NEAR(parameter(*model, "blocks.2.attention.qkv").std().item<double>(), 0.02, 5e-4);
  EXPECT_NEAR(parameter(*model, "blocks.2.attention.out").std().item<double>(), 0.02 / 4, 2e-4);
  EXPECT_NEAR(parameter(*model, "blocks.2.mlp.down").std().item<double>(), 0.02 / 4, 2e-4);
}

TEST(Gpt, BlocksStartDifferentFromEachOther) {
  const auto model = make_model({}, 256, 0);
  EXPECT_FALSE(at::equal(parameter(*model, "blocks.0.mlp.up"), parameter(*model, "blocks.1.mlp.up")));
}

TEST(Gpt, AParameterStartsTheSameInADeeperModelUnlessItsScaleDependsOnDepth) {
  const auto shallow = make_model({.layers = 1}, 256, 0), deep = make_model({.layers = 4}, 256, 0);
  EXPECT_TRUE(at::equal(parameter(*shallow, "blocks.0.mlp.up"), parameter(*deep, "blocks.0.mlp.up")));
  EXPECT_TRUE(at::equal(parameter(*shallow, "head.linear"), parameter(*deep, "head.linear")));
}

TEST(Gpt, MiniHasTenPointEightMillionParameters) {
  ModelOptions o{.size = "mini"};
  apply_size(o);
  const int64_t blocks = 6 * (12 * 384 * 384 + 2 * 384), rest = (2 * 256 + o.context + 1) * 384;
  EXPECT_EQ(make_model(o, 256, 0)->numel(), blocks + rest);
  EXPECT_NEAR(static_cast<double>(blocks + rest), 10.8e6, 0.1e6);
}

}  // namespace
}  // namespace thinwire::models
