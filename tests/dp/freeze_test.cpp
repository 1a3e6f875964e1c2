#include "thinwire/dp/freeze.h"

#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/base/errors.h"

namespace thinwire::dp {
namespace {

// The first step at which a second moment that follows `sum` freezes.
template <class F>
int64_t frozen_at(FreezeWatch watch, F&& sum) {
  for (int64_t t = 1; t < 20'000; ++t)
    if (watch.due(t, std::vector<double>{sum(t)})) return t;
  return -1;
}

TEST(FreezeWatch, WithStationaryGradientsAndBeta999ItFreezesAtStep3783) {
  EXPECT_EQ(frozen_at(FreezeWatch({.automatic = true}, 0.999, 0, 1), [](int64_t t) { return 1 - std::pow(0.999, t); }),
            3783);
}

TEST(FreezeWatch, WithBeta95ItFreezesAtStep75) {
  const auto sum = [](int64_t t) { return 1 - std::pow(0.95, t); };
  EXPECT_EQ(frozen_at(FreezeWatch({.automatic = true}, 0.95, 0, 1), sum), 75);
  EXPECT_EQ(frozen_at(FreezeWatch({.automatic = true}, 0.95, 100, 1), sum), 100) << "not before lr has warmed up";
}

TEST(FreezeWatch, NeverFreezesWhileItGrowsOrFallsOrIsZero) {
  for (double factor : {1.05, 0.95, 0.0})
    EXPECT_EQ(frozen_at(FreezeWatch({.automatic = true}, 0.95, 0, 1),
                        [&](int64_t t) { return std::pow(factor, t % 10'000); }),
              -1)
        << factor;
}

TEST(FreezeWatch, TensorsThatStillChangeHoldItUpHoweverSmallTheyAre) {
  for (double factor : {1.05, 0.95}) {
    FreezeWatch watch({.automatic = true}, 0.95, 0, 2);
    for (int64_t t = 1; t < 500; ++t)
      ASSERT_FALSE(watch.due(t, std::vector<double>{1000.0, 1e-9 * std::pow(factor, t)})) << t;
  }
}

TEST(FreezeWatch, AGivenStepIsTaken) {
  EXPECT_EQ(frozen_at(FreezeWatch({.automatic = false, .step = 17}, 0.95, 100, 1), [](int64_t) { return 0.0; }), 17);
}

TEST(FreezeWatch, GoesOnFromItsState) {
  FreezeWatch straight({.automatic = true}, 0.95, 0, 1), resumed({.automatic = true}, 0.95, 0, 1);
  const auto sum = [](int64_t t) { return 1 - std::pow(0.95, t); };
  for (int64_t t = 1; t <= 60; ++t) straight.due(t, std::vector<double>{sum(t)});
  State state;
  straight.put(state, "");
  resumed.get(state, "");
  for (int64_t t = 61; t < 75; ++t) EXPECT_FALSE(resumed.due(t, std::vector<double>{sum(t)}));
  EXPECT_TRUE(resumed.due(75, std::vector<double>{sum(75)}));
}

TEST(Freeze, IsANumberOrAuto) {
  Freeze freeze;
  read(std::string("auto"), "strategy.freeze", freeze, at_least(1));
  EXPECT_TRUE(freeze.automatic);
  read(int64_t{12}, "strategy.freeze", freeze, at_least(1));
  EXPECT_EQ(freeze.step, 12);
  EXPECT_FALSE(freeze.automatic);
  auto error = [&](const Value& value) {
    try {
      read(value, "strategy.freeze", freeze, at_least(1));
    } catch (const BadInput& wrong) {
      return std::string(wrong.what());
    }
    return std::string();
  };
  EXPECT_EQ(error(std::string("never")), "strategy.freeze must be a number of steps or \"auto\", got \"never\"");
  EXPECT_EQ(error(int64_t{0}), "strategy.freeze must be at least 1, got 0");
}

}  // namespace
}  // namespace thinwire::dp
