#include "thinwire/optim/schedule.h"

#include <gtest/gtest.h>

namespace thinwire::optim {
namespace {

constexpr Schedule kCosine{.lr = 2, .warmup_steps = 10, .cosine = true, .final_lr = 0.1, .steps = 110};

TEST(Schedule, WarmUpIsALineFromZeroToTheTop) {
  for (int64_t t = 1; t <= 10; ++t) EXPECT_DOUBLE_EQ(kCosine.at(t), 0.2 * static_cast<double>(t)) << t;
}

TEST(Schedule, ACosineIsHalfWayInTheMiddleAndEndsOnItsShare) {
  EXPECT_DOUBLE_EQ(kCosine.at(10), 2);
  EXPECT_DOUBLE_EQ(kCosine.at(60), (2 + 0.2) / 2);
  EXPECT_DOUBLE_EQ(kCosine.at(110), 0.2);
  EXPECT_DOUBLE_EQ(kCosine.at(1000), 0.2);
}

TEST(Schedule, ACosineOnlyFalls) {
  for (int64_t t = 11; t <= 110; ++t) EXPECT_LT(kCosine.at(t), kCosine.at(t - 1)) << t;
}

TEST(Schedule, WithAFinalShareOfOneItIsConstant) {
  Schedule s = kCosine;
  s.final_lr = 1;
  for (int64_t t = 10; t <= 110; ++t) EXPECT_DOUBLE_EQ(s.at(t), 2) << t;
}

TEST(Schedule, WithoutCosineOrAKnownNumberOfStepsItIsConstantAfterWarmUp) {
  Schedule constant = kCosine, open = kCosine;
  constant.cosine = false;
  open.steps = 0;
  for (const Schedule& s : {constant, open}) {
    EXPECT_DOUBLE_EQ(s.at(5), 1);
    for (int64_t t : {10, 11, 60, 110, 100'000}) EXPECT_EQ(s.at(t), 2) << t;
  }
}

TEST(Schedule, WithoutWarmUpItStartsBelowTheTop) {
  Schedule s = kCosine;
  s.warmup_steps = 0;
  EXPECT_LT(s.at(1), 2);
  EXPECT_GT(s.at(1), 1.99);
  EXPECT_DOUBLE_EQ(s.at(55), 1.1);
}

TEST(Schedule, AWarmUpLongerThanTheRunNeverReachesTheTop) {
  Schedule s = kCosine;
  s.steps = 5;
  EXPECT_DOUBLE_EQ(s.at(5), 1);
}

}  // namespace
}  // namespace thinwire::optim
