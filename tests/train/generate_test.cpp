#include "thinwire/train/generate.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "thinwire/base/errors.h"
#include "thinwire/base/random.h"

namespace thinwire::train {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<double> shares(const at::Tensor& logits, double temperature, int64_t top_k, int draws = 20000) {
  std::vector<double> share(logits.numel());
  for (int i = 0; i < draws; ++i) share[choose(logits, temperature, top_k, hash64({7, uint64_t(i)}))] += 1.0 / draws;
  return share;
}

void expect_shares(const std::vector<double>& wanted, const std::vector<double>& got) {
  ASSERT_EQ(wanted.size(), got.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(wanted[i], got[i], 0.015) << "token " << i;
}

const at::Tensor kLogits = at::tensor({std::log(1.0), std::log(4.0), std::log(3.0), std::log(2.0)});

TEST(Choose, FollowsTheSoftmax) { expect_shares({0.1, 0.4, 0.3, 0.2}, shares(kLogits, 1, 0)); }

TEST(Choose, SharpensWithALowTemperature) {
  expect_shares({1 / 30.0, 16 / 30.0, 9 / 30.0, 4 / 30.0}, shares(kLogits, 0.5, 0));
}

TEST(Choose, TakesEveryTokenAlikeWhenInfinitelyHot) {
  expect_shares({0.25, 0.25, 0.25, 0.25}, shares(kLogits, kInf, 0));
}

TEST(Choose, TakesTheLikeliestWhenAlmostCold) {
  for (double temperature : {1e-3, 1e-300, 5e-324}) expect_shares({0, 1, 0, 0}, shares(kLogits, temperature, 0, 100));
}

TEST(Choose, LooksAtTheTopKOnly) {
  expect_shares({0, 4 / 7.0, 3 / 7.0, 0}, shares(kLogits, 1, 2));
  expect_shares({0, 1, 0, 0}, shares(kLogits, 1, 1, 100));
  expect_shares({0.1, 0.4, 0.3, 0.2}, shares(kLogits, 1, 1000));
}

TEST(Choose, OfEqualTokensTheLowerIsLikelier) {
  const at::Tensor equal = at::tensor({1.0, 2.0, 2.0, 2.0});
  EXPECT_EQ(1, choose(equal, 0, 0, ~0ull));
  expect_shares({0, 0.5, 0.5, 0}, shares(equal, 1, 2));
}

TEST(Choose, UsesTheFirstAndTheLastOfAllBits) {
  EXPECT_EQ(1, choose(kLogits, 1, 0, 0));
  EXPECT_EQ(0, choose(kLogits, 1, 0, ~0ull));
}

TEST(Choose, RefusesLogitsThatAreNotFinite) {
  for (double bad : {kInf, -kInf, std::nan("")}) EXPECT_THROW(choose(at::tensor({0.0, bad}), 1, 0, 5), c10::Error);
}

// After every byte the next one of the alphabet.
class Alphabet final : public models::Unit {
 public:
  at::Tensor forward(const at::Tensor& tokens_BT) override {
    longest = std::max(longest, tokens_BT.size(1));
    return at::one_hot((tokens_BT + 1).remainder(256), 256).to(at::kFloat) * 50;
  }
  int64_t longest = 0;
};

std::string text(models::Model& model, std::string_view prompt, const GenerateOptions& options, int64_t context = 8) {
  std::string added;
  generate(model, context, prompt, options, [&](char byte) { return added += byte, true; });
  return added;
}

std::string text(std::string_view prompt, const GenerateOptions& options) {
  auto model = models::make_model({.layers = 1, .width = 8, .heads = 1, .context = 8}, 256, 3);
  return text(*model, prompt, options);
}

TEST(Generate, GoesOnWhereThePromptEnds) {
  models::Model model;
  model.units.push_back(std::make_unique<Alphabet>());
  EXPECT_EQ("defghijklmnop", text(model, "abc", {.tokens = 13}));
  EXPECT_EQ("\xFF\x01", text(model, "\xFE", {.tokens = 3}).erase(1, 1)) << "bytes above 127, and the zero byte";
}

TEST(Generate, StartsFromALineBreakWithoutAPrompt) {
  models::Model model;
  model.units.push_back(std::make_unique<Alphabet>());
  EXPECT_EQ("\v\f\r", text(model, "", {.tokens = 3}));
}

TEST(Generate, ShowsTheModelNoMoreThanItsContext) {
  models::Model model;
  model.units.push_back(std::make_unique<Alphabet>());
  auto& alphabet = static_cast<Alphabet&>(*model.units[0]);
  EXPECT_EQ("xyz", text(model, "abcdefghijklmnopqrstuvw", {.tokens = 3}, 5));
  EXPECT_EQ(5, alphabet.longest);
  EXPECT_EQ(text("0123456789", {}), text("23456789", {})) << "of a long prompt, the end counts";
}

TEST(Generate, GivesTheSameTextForTheSameSeed) {
  EXPECT_EQ(text("ab", {.seed = 5}), text("ab", {.seed = 5}));
  EXPECT_NE(text("ab", {.seed = 5}), text("ab", {.seed = 6}));
  EXPECT_NE(text("ab", {.seed = 5}), text("ac", {.seed = 5}));
}

TEST(Generate, GivesTheSameBeginningHoweverLong) {
  EXPECT_EQ(text("ab", {.tokens = 20}), text("ab", {.tokens = 50}).substr(0, 20));
}

TEST(Generate, IgnoresTheSeedWhenItIsGreedy) {
  EXPECT_EQ(text("ab", {.temperature = 0, .seed = 1}), text("ab", {.temperature = 0, .seed = 2}));
  EXPECT_EQ(text("ab", {.temperature = 0}), text("ab", {.temperature = 2, .top_k = 1}));
}

TEST(Generate, LeavesTorchsGeneratorAlone) {
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  text("ab", {.tokens = 5});
  EXPECT_TRUE(before.equal(at::detail::getDefaultCPUGenerator().get_state()));
}

TEST(Generate, EndsWhenItIsTold) {
  auto model = models::make_model({.layers = 1, .width = 8, .heads = 1, .context = 8}, 256, 3);
  int calls = 0;
  generate(*model, 8, "", {.tokens = 100}, [&](char) { return ++calls < 3; });
  EXPECT_EQ(3, calls);
}

TEST(Generate, SaysWhichOptionIsOutOfRange) {
  auto message = [](const GenerateOptions& options) -> std::string {
    try {
      text("", options);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ("generate.tokens must be at least 1, got 0", message({.tokens = 0}));
  EXPECT_EQ("generate.temperature must be at least 0, got -1", message({.temperature = -1}));
  EXPECT_EQ("generate.temperature must be at least 0, got nan", message({.temperature = std::nan("")}));
  EXPECT_EQ("generate.top_k must be at least 0, got -3", message({.top_k = -3}));
  EXPECT_EQ("generate.seed must be at least 0, got -4", message({.seed = -4}));
}

}  // namespace
}  // namespace thinwire::train
