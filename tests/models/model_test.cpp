// What holds for every model: run once for each name, with and without a tied head.
#include "thinwire/models/model.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "thinwire/base/errors.h"

namespace thinwire::models {
namespace {

at::Tensor some_tokens(int64_t rows, int64_t time, int64_t salt = 0) {
  return (at::arange(rows * time, at::kLong) * 37 + 11 + salt).remainder(256).view({rows, time});
}

std::vector<Parameter> all_parameters(const Model& model) {
  std::vector<Parameter> all;
  for (const auto& unit : model.units) all.insert(all.end(), unit->parameters.begin(), unit->parameters.end());
  return all;
}

class EveryModel : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  EveryModel() { at::set_num_threads(1); }  // models this small only wait for a second thread
  ModelOptions options() const { return {.name = std::get<0>(GetParam()), .tied = std::get<1>(GetParam())}; }
};

INSTANTIATE_TEST_SUITE_P(ByName, EveryModel, testing::Combine(testing::Values("gpt", "mlp"), testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) + (std::get<1>(info.param) ? "Tied" : "Untied");
                         });

TEST_P(EveryModel, TurnsTokensIntoOneLogitForEachWordOfTheVocabulary) {
  const at::Tensor logits = make_model(options(), 300, 0)->forward(some_tokens(2, 5));
  EXPECT_EQ(logits.sizes(), (std::vector<int64_t>{2, 5, 300}));
  EXPECT_EQ(logits.scalar_type(), at::kFloat);
}

TEST_P(EveryModel, PassesAFeatureVectorForEachTokenFromUnitToUnit) {
  const auto model = make_model(options(), 256, 0);
  at::Tensor x = some_tokens(2, 5);
  for (size_t i = 0; i + 1 < model->units.size(); ++i) {
    x = model->units[i]->forward(x);
    EXPECT_EQ(x.sizes(), (std::vector<int64_t>{2, 5, options().width}));
  }
}

TEST_P(EveryModel, TheSameSeedGivesTheSameBits) {
  const auto a = all_parameters(*make_model(options(), 256, 7)), b = all_parameters(*make_model(options(), 256, 7));
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].tensor, b[i].tensor)) << a[i].name;
}

TEST_P(EveryModel, AnotherSeedGivesOtherMatrices) {
  const auto a = all_parameters(*make_model(options(), 256, 7)), b = all_parameters(*make_model(options(), 256, 8));
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(at::equal(a[i].tensor, b[i].tensor), a[i].tensor.dim() == 1) << a[i].name;  // norms start at one
}

TEST_P(EveryModel, ParametersAreLeavesInFp32WithNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const auto& p : all_parameters(*make_model(options(), 256, 0))) {
    EXPECT_TRUE(p.tensor.requires_grad() && p.tensor.is_leaf()) << p.name;
    EXPECT_EQ(p.tensor.scalar_type(), at::kFloat) << p.name;
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
  }
}

TEST_P(EveryModel, TheGradientReachesEveryParameter) {
  const auto model = make_model(options(), 256, 0);
  model->loss(some_tokens(4, options().context), some_tokens(4, options().context, 37)).backward();
  for (const auto& p : all_parameters(*model)) {
    ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
    EXPECT_GT(p.tensor.grad().abs().max().item<double>(), 0) << p.name;
  }
}

TEST_P(EveryModel, GuessesAmongAllTokensBeforeItIsTrained) {
  const auto model = make_model(options(), 256, 0);
  EXPECT_NEAR(model->loss(some_tokens(4, 32), some_tokens(4, 32, 100)).item<double>(), std::log(256.0), 0.15);
}

TEST_P(EveryModel, TheLossIsTheMeanOfMinusTheLogProbabilityOfTheTargets) {
  const auto model = make_model(options(), 256, 0);
  const at::Tensor tokens = some_tokens(2, 7), targets = some_tokens(2, 7, 5);
  const at::Tensor log_p = at::log_softmax(model->forward(tokens), 2).gather(2, targets.unsqueeze(2));
  EXPECT_NEAR(model->loss(tokens, targets).item<double>(), -log_p.mean().item<double>(), 1e-5);
}

TEST_P(EveryModel, AFewStepsDownTheGradientLearnABatch) {
  const auto model = make_model(options(), 256, 0);
  const at::Tensor tokens = some_tokens(2, 8), targets = some_tokens(2, 8, 37);
  const double before = model->loss(tokens, targets).item<double>();
  for (int step = 0; step < 10; ++step) {
    model->loss(tokens, targets).backward();
    for (const auto& p : all_parameters(*model)) {
      p.tensor.detach().sub_(p.tensor.grad(), 0.5);
      p.tensor.mutable_grad().reset();
    }
  }
  EXPECT_LT(model->loss(tokens, targets).item<double>(), before - 0.5);
}

TEST_P(EveryModel, UsesTheTensorThatSetDataPutBehindAParameter) {
  const auto model = make_model(options(), 256, 0);
  for (auto& p : all_parameters(*model)) p.tensor.set_data(at::zeros_like(p.tensor.detach()));
  EXPECT_EQ(model->forward(some_tokens(1, 4)).abs().max().item<double>(), 0);
}

TEST_P(EveryModel, ATiedHeadSavesOneMatrixAndAnUntiedOneIsListedByTheHead) {
  ModelOptions tied = options(), untied = options();
  tied.tied = true, untied.tied = false;
  const auto with = make_model(tied, 256, 0), without = make_model(untied, 256, 0);
  EXPECT_EQ(without->numel() - with->numel(), 256 * untied.width);
  EXPECT_EQ(with->units.back()->parameters.size(), 1u);
  EXPECT_EQ(without->units.back()->parameters.size(), 2u);
}

TEST_P(EveryModel, TheHeadFollowsTheEmbeddingsMatrixIfAndOnlyIfItIsTied) {
  const auto model = make_model(options(), 256, 0);
  Unit& head = *model->units.back();
  const at::Tensor x = model->units[0]->forward(some_tokens(1, 4)).detach();
  const at::Tensor before = head.forward(x);
  at::Tensor embedding = model->units[0]->parameters[0].tensor;
  embedding.set_data(embedding.detach() * 2);
  EXPECT_EQ(at::equal(head.forward(x), before * 2), options().tied);
  EXPECT_EQ(at::equal(head.forward(x), before), !options().tied);
}

TEST(Sizes, ANameSetsLayersWidthAndHeads) {
  ModelOptions o{.size = "medium", .context = 10};
  apply_size(o);
  EXPECT_EQ(std::tuple(o.layers, o.width, o.heads, o.context), std::tuple(24, 1024, 16, 10));
}

TEST(Sizes, TheDefaultNumbersAreThoseOfTheDefaultName) {
  ModelOptions o;
  apply_size(o);
  EXPECT_EQ(std::tuple(o.layers, o.width, o.heads),
            std::tuple(ModelOptions().layers, ModelOptions().width, ModelOptions().heads));
}

TEST(Sizes, EveryNamedSizeFitsItsHeads) {
  for (const std::string& name : size_names()) {
    ModelOptions o{.size = name};
    apply_size(o);
    EXPECT_EQ(o.width % o.heads, 0) << name;
  }
}

TEST(Sizes, AKeyBesideANamedSizeWins) {
  ModelOptions o;
  read_section({{"size", "mini"}, {"layers", int64_t{2}}}, "model", o);
  EXPECT_EQ(std::tuple(o.layers, o.width, o.heads), std::tuple(2, 384, 6));
}

TEST(Sizes, AnUnknownNameIsBadInputThatListsTheOthers) {
  ModelOptions o{.size = "huge"};
  try {
    apply_size(o);
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_STREQ(error.what(), "model.size must be one of nano, micro, mini, small, medium, got \"huge\"");
  }
}

TEST(Models, AnUnknownNameIsBadInput) {
  try {
    make_model({.name = "rnn"}, 256, 0);
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_STREQ(error.what(), "model.name must be one of gpt, mlp, got \"rnn\"");
  }
}

TEST(Models, ANumberBelowOneIsAnError) {
  EXPECT_THROW(make_model({.heads = 0}, 256, 0), c10::Error);
  EXPECT_THROW(make_model({.layers = 0}, 256, 0), c10::Error);
  EXPECT_THROW(make_model({}, 0, 0), c10::Error);
}

}  // namespace
}  // namespace thinwire::models
