#include "thinwire/optim/catalog.h"

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <limits>

#include "thinwire/base/errors.h"
#include "thinwire/base/random.h"
#include "thinwire/optim/flat.h"

namespace thinwire::optim {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<at::Tensor> parameters() {
  std::vector<at::Tensor> list;
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{30, 40}, {50}, {600}})
    list.push_back(at::empty(sizes).normal_(0, 1, generator(1, "x", list.size())).requires_grad_());
  return list;
}

void draw_gradients(const std::vector<at::Tensor>& parameters, uint64_t t) {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].grad().normal_(0, 1, generator(t, "gradient", i));
}

// With two groups, as ours: matrices decay, vectors do not. (Torch gives a group that asks for its type's default the
// optimizer's default instead: that one must not decay either.)
template <class Optimizer, class Options>
std::unique_ptr<torch::optim::Optimizer> torch_rule(const std::vector<at::Tensor>& p, Options options, double decay) {
  options.weight_decay(0);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.push_back({{p[0]}, std::make_unique<Options>(Options(options).weight_decay(decay))});
  groups.push_back({{p[1], p[2]}, std::make_unique<Options>(options)});
  return std::make_unique<Optimizer>(groups, options);
}
std::unique_ptr<torch::optim::Optimizer> torch_rule(const OptimOptions& o, const std::vector<at::Tensor>& p) {
  using namespace torch::optim;
  if (o.name == "sgd") return torch_rule<SGD>(p, SGDOptions(o.lr).momentum(o.momentum), o.weight_decay);
  return torch_rule<AdamW>(p, AdamWOptions(o.lr).betas({o.betas[0], o.betas[1]}).eps(o.eps), o.weight_decay);
}

TEST(OptimCatalog, RulesEqualTorchsOver20StepsClippedOrNot) {
  for (const char* name : {"adamw", "sgd"}) {
    for (double clip : {kInf, 10.0}) {
      const OptimOptions o{.name = name, .lr = 0.01, .clip = clip};
      const std::vector<at::Tensor> ours = parameters(), torchs = parameters();
      Flat flat({{ours[0], ours[1]}, {ours[2]}});
      const RulePtr rule = make_rule(o, flat.layout());
      const auto optimizer = torch_rule(o, torchs);
      for (const at::Tensor& p : torchs) p.mutable_grad() = at::zeros_like(p);
      for (int64_t t = 1; t <= 20; ++t) {
        draw_gradients(ours, t);
        draw_gradients(torchs, t);
        rule->apply({.x = flat.x, .next = flat.x, .grad = flat.grad, .lr = std::array{o.lr, o.lr}, .t = t});
        if (clip < kInf) torch::nn::utils::clip_grad_norm_(torchs, clip);
        optimizer->step();
      }
      for (size_t i = 0; i < ours.size(); ++i)
        EXPECT_LT(((ours[i] - torchs[i]).norm() / torchs[i].norm()).item<double>(), 1e-6) << name << " " << clip;
    }
  }
}

TEST(OptimCatalog, AnInfiniteClipChangesNoGradient) {
  const Layout layout = make_layout({{at::empty({1024})}});
  for (const double clip : {kInf, 1.0}) {
    const at::Tensor x = at::zeros({1024}), grad = at::ones({1024});
    make_rule({.clip = clip}, layout)->apply({.x = x, .next = x, .grad = grad, .lr = std::array{0.1, 0.1}, .t = 1});
    EXPECT_EQ(at::equal(grad, at::ones({1024})), clip == kInf);
  }
}

TEST(OptimCatalog, TheSumOverTheReplicaReachesClip) {
  const Layout layout = make_layout({{at::empty({1024})}});
  const at::Tensor x = at::zeros({1024}), grad = at::ones({1024});
  const RulePtr rule = make_rule({}, layout, [](at::Tensor squares, Over) { squares.mul_(4); });  // norm 64
  rule->apply({.x = x, .next = x, .grad = grad, .lr = std::array{0.1, 0.1}, .t = 1});
  EXPECT_TRUE(at::allclose(grad, at::full({1024}, 1.0 / 64)));
}

TEST(OptimCatalog, AScheduleIsMadeOfTheOptions) {
  const OptimOptions o{.lr = 2, .warmup_steps = 10, .final_lr = 0.5};
  EXPECT_DOUBLE_EQ(make_schedule(o, 100).at(5), 1);
  EXPECT_DOUBLE_EQ(make_schedule(o, 100).at(100), 1);
  EXPECT_DOUBLE_EQ(make_schedule(o, 0).at(100), 2);
  OptimOptions constant = o;
  constant.schedule = "constant";
  EXPECT_DOUBLE_EQ(make_schedule(constant, 100).at(100), 2);
}

TEST(OptimCatalog, AValueOutOfRangeIsAnErrorThatSaysTheRange) {
  const std::tuple<const char*, Value, const char*> known[] = {
      {"name", std::string("adam"),
       "optim.name must be one of sgd, adamw, nadamw, lamb, lars, muon, got \"adam\"; did you mean \"adamw\"?"},
      {"lr", 0.0, "optim.lr must be above 0 and at most 1000, got 0"},
      {"lr", kNan, "optim.lr must be above 0 and at most 1000, got nan"},
      {"betas", std::vector<double>{0.9, 1}, "optim.betas must be at least 0 and below 1, got 1"},
      {"eps", 0.0, "optim.eps must be above 0 and at most 1, got 0"},
      {"momentum", 1.0, "optim.momentum must be at least 0 and below 1, got 1"},
      {"momentum_decay", 0.0, "optim.momentum_decay must be above 0, got 0"},
      {"weight_decay", -0.1, "optim.weight_decay must be at least 0 and at most 1000, got -0.1"},
      {"bias_correction", int64_t{1}, "optim.bias_correction must be true or false, got 1"},
      {"clip", 0.0, "optim.clip must be above 0, got 0"},
      {"warmup_steps", int64_t{-1}, "optim.warmup_steps must be at least 0, got -1"},
      {"schedule", std::string("cos"), "optim.schedule must be one of cosine, constant, got \"cos\""},
      {"final_lr", 1.1, "optim.final_lr must be at least 0 and at most 1, got 1.1"},
  };
  for (const auto& [key, value, text] : known) {
    OptimOptions o;
    try {
      read_section({{key, value}}, "optim", o);
      ADD_FAILURE() << key;
    } catch (const BadInput& error) {
      EXPECT_STREQ(error.what(), text);
    }
  }
}

TEST(OptimCatalog, NadamwHasItsOwnBetasUnlessTheRecipeGivesThem) {
  OptimOptions own, given;
  read_section({{"name", std::string("nadamw")}}, "optim", own);
  read_section({{"name", std::string("nadamw")}, {"betas", std::vector{0.9, 0.95}}}, "optim", given);
  EXPECT_EQ(own.betas, (std::array{0.99, 0.999}));
  EXPECT_EQ(given.betas, (std::array{0.9, 0.95}));
}

TEST(OptimCatalog, MomentumDecayMayBeInfinite) {
  OptimOptions o;
  read_section({{"momentum_decay", kInf}}, "optim", o);
  EXPECT_EQ(o.momentum_decay, kInf);
}

TEST(OptimCatalog, ANameThatDoesNotExistIsNotReplacedByAnother) {
  const Layout layout = make_layout({{at::empty({4})}});
  EXPECT_THROW(make_rule({.name = "lion"}, layout), BadInput);
  EXPECT_THROW(make_rule({.eps = 0}, layout), BadInput);
  EXPECT_THROW(make_schedule({.schedule = "linear"}, 10), BadInput);
}

}  // namespace
}  // namespace thinwire::optim
