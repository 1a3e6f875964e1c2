#include "thinwire/dp/catalog.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "thinwire/base/errors.h"

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

}  // namespace
}  // namespace thinwire::dp
