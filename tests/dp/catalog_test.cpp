#include "thinwire/dp/catalog.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/errors.h"
#include "thinwire/comm/world.h"

namespace thinwire::dp {
namespace {

StrategyOptions read(const Table& table) {
  StrategyOptions options;
  read_section(table, "strategy", options);
  return options;
}

std::string refused(const Table& table) {
  try {
    read(table);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TEST(Catalog, ANameBringsItsPublishedDefaults) {
  const auto co2 = read({{"name", std::string("co2")}}).periodic;
  EXPECT_EQ(co2.delay, 1);
  EXPECT_EQ(co2.momentum, 0.2);
  EXPECT_EQ(co2.penalty, "gap");
  EXPECT_EQ(co2.clip, 1);
  const auto diloco = read({{"name", std::string("diloco")}}).periodic;
  EXPECT_EQ(diloco.outer, "nesterov");
  EXPECT_EQ(diloco.outer_lr, 0.7);
  EXPECT_FALSE(diloco.lr_normalised);
  EXPECT_TRUE(read({{"name", std::string("eager_diloco")}}).periodic.keep.per_replica);
}

TEST(Catalog, KeysOverrideTheNamesDefaults) {
  const auto options = read({{"name", std::string("co2")}, {"momentum", 0.5}, {"keep", std::string("1/M")}}).periodic;
  EXPECT_EQ(options.momentum, 0.5);
  EXPECT_TRUE(options.keep.per_replica);
  EXPECT_EQ(options.penalty, "gap");
}

TEST(Catalog, AStrategyHasOnlyTheKeysThatMeanSomethingToIt) {
  EXPECT_EQ(refused({{"name", std::string("local_sgd")}, {"momentum", 0.5}}),
            "unknown key strategy.momentum (there are: name, period, delay, outer, codec)");
  EXPECT_EQ(refused({{"name", std::string("all_reduce")}, {"period", int64_t{3}}}),
            "unknown key strategy.period (there are: name, bucket, codec)");
  EXPECT_EQ(refused({{"name", std::string("slowmo")}, {"keep", 0.5}}).substr(0, 25), "unknown key strategy.keep");
  EXPECT_EQ(refused({{"name", std::string("slowmo")}, {"delay", int64_t{1}}, {"keep", 0.5}}), "");
}

TEST(Catalog, WrongValuesSayWhatWasWanted) {
  EXPECT_EQ(refused({{"name", std::string("slowmow")}}).substr(0, 46),
            "strategy.name must be one of all_reduce, local");
  EXPECT_NE(refused({{"name", std::string("slowmow")}}).find("did you mean \"slowmo\"?"), std::string::npos);
  EXPECT_EQ(refused({{"name", std::string("co2")}, {"keep", 1.5}}),
            "strategy.keep must be at least 0 and at most 1, got 1.5");
  EXPECT_EQ(refused({{"name", std::string("co2")}, {"keep", std::string("half")}}),
            "strategy.keep must be a number or \"1/M\", got \"half\"");
}

TEST(Catalog, EveryNameIsReadBackFromWhatItWritesDown) {
  for (const auto& name : strategy_names()) {
    Table table;
    for (const auto& field : list_fields(preset(name))) table[field.key] = field.value;
    const auto again = list_fields(read(table));
    ASSERT_EQ(again.size(), table.size()) << name;
    for (const auto& field : again) EXPECT_EQ(toml_text(field.value), toml_text(table[field.key])) << name << field.key;
  }
}

TEST(Traits, SayWhatCallersNeedToKnow) {
  EXPECT_FALSE(traits_of(preset("all_reduce")).owns_rule);
  EXPECT_TRUE(traits_of(preset("zero_one_adam")).owns_rule);
  EXPECT_FALSE(traits_of(preset("one_bit_lamb")).needs_global_norms);
  StrategyOptions co2 = preset("co2");
  co2.periodic.period = 7;
  EXPECT_EQ(traits_of(co2).round_steps, 7);
  EXPECT_NE(traits_of(co2).sentences.find("progress (7 steps)"), std::string::npos);
  for (const auto& name : strategy_names()) {
    EXPECT_FALSE(traits_of(preset(name)).sentences.empty()) << name;
    EXPECT_EQ(traits_of(preset(name)).sentences.find('{'), std::string::npos) << name;
  }
}

// A rule that adds one to every weight.
struct PlusOne final : optim::Rule {
  void apply(const optim::Update& u) override { at::Tensor(u.next).copy_(u.x).add_(1); }
  State state() override { return {}; }
  void load(const State&) override {}
};

TEST(Catalog, AStrategyTakesARuleThatTheCallerBrings) {
  for (const auto& name : strategy_names()) {
    comm::run_world(2, [&](comm::GroupPtr group) {
      optim::Flat weights({{at::zeros({4096, 6})}});
      const std::vector<double> rates = {0.1, 0.1};
      if (traits_of(preset(name)).owns_rule) {
        EXPECT_THROW(make_strategy(preset(name), weights, {.sync = group}, std::make_unique<PlusOne>()), BadInput);
        return;
      }
      auto strategy = make_strategy(preset(name), weights, {.sync = group}, std::make_unique<PlusOne>());
      for (int64_t t = 1; t <= 3; ++t)
        strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = rates, .t = t});
      EXPECT_EQ(weights.x[0].item<float>(), 3) << name;
    });
  }
}

TEST(Strategy, WhatTheRuleWroteIsSeenBeforeAnythingLands) {
  for (const std::string name : {"all_reduce", "local_sgd", "sparta"}) {
    StrategyOptions options = preset(name);
    options.periodic.period = 1;
    if (name == "sparta") options.slices.slices = 1;
    comm::run_world(2, [&](comm::GroupPtr group) {
      optim::Flat weights({{at::zeros({2048})}});
      auto strategy =
          make_strategy(options, weights, {.sync = group}, optim::OptimOptions{.name = "sgd", .clip = INFINITY});
      weights.grad.fill_(group->rank() == 0 ? 1.0 : 3.0);
      const std::vector<double> rates = {1, 1};
      float seen = 0;
      strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = rates, .t = 1, .rule_wrote = [&] {
                        seen = weights.x[0].item<float>();
                      }});
      const bool local = name != "all_reduce";
      if (local) {
        EXPECT_NE(seen, weights.x[0].item<float>()) << name << ": the mean landed afterwards";
      }
      EXPECT_NE(seen, 0) << name;
    });
  }
}

}  // namespace
}  // namespace thinwire::dp
