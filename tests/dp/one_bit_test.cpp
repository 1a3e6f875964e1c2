// one_bit_adam, one_bit_lamb, zero_one_adam: what they must be equal to, and what they never may do.
#include "thinwire/dp/one_bit.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "quadratic.h"
#include "thinwire/base/errors.h"
#include "thinwire/dp/one_bit_lamb.h"
#include "thinwire/kernels/reach.h"

namespace thinwire::dp {
namespace {

constexpr const char* kNames[] = {"one_bit_adam", "one_bit_lamb", "zero_one_adam"};
const std::vector<double> kRates(2, 0.02);

StrategyOptions frozen_after(const std::string& name, int64_t step) {
  auto options = preset(name);
  options.one_bit.freeze = {.automatic = false, .step = step};
  options.zero_one = {.var_update_scaler = 3, .local_step_scaler = 5, .local_step_clipper = 4};
  return options;
}

// A model of two units with padding behind each, trained towards each rank's own target.
struct Learner {
  at::Tensor matrix = random_vector(1500, 1).view({30, 50}), vector = random_vector(37, 2),
             second = random_vector(300, 3);
  optim::Flat weights{{{matrix, vector}, {second}}, {.names = {"matrix", "vector", "second"}}};
  at::Tensor target;
  StrategyPtr strategy;

  Learner(const StrategyOptions& options, comm::GroupPtr group, const optim::OptimOptions& optim, uint64_t seed)
      : target(on_pieces(weights.layout(), seed)), strategy(make_strategy(options, weights, {.sync = group}, optim)) {}

  void gradient() { weights.grad.copy_(weights.x).sub_(target); }
  void apply(int64_t t) {
    strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = kRates, .t = t});
  }
  void step(int64_t t) { gradient(), apply(t); }
};

struct Outcome {
  std::vector<at::Tensor> x;
};

Outcome train(const StrategyOptions& options, int ranks, int64_t steps, const optim::OptimOptions& optim = {},
              bool same_data = false) {
  Outcome outcome{std::vector<at::Tensor>(ranks)};
  comm::run_world(ranks, [&](comm::GroupPtr group) {
    Learner learner(options, group, optim, same_data ? 50 : 50 + group->rank());
    for (int64_t t = 1; t <= steps; ++t) learner.step(t);
    outcome.x[group->rank()] = learner.weights.x.clone();
  });
  return outcome;
}

class OneBitStrategy : public testing::TestWithParam<const char*> {};

TEST_P(OneBitStrategy, ReplicasAgreeToTheBitWheneverTheyHaveExchanged) {
  auto options = frozen_after(GetParam(), 8);
  options.zero_one.local_step_clipper = 1;
  const auto x = train(options, 3, 30).x;
  EXPECT_TRUE(x[1].equal(x[0]));
  EXPECT_TRUE(x[2].equal(x[0]));
}

TEST_P(OneBitStrategy, FindsTheTargetThroughNoisyGradients) {
  comm::run_world(4, [&](comm::GroupPtr group) {
    Learner learner(frozen_after(GetParam(), 30), group, {.weight_decay = 0}, 50);
    const double before = distance(learner.weights.x, learner.target);
    for (int64_t t = 1; t <= 300; ++t) {
      learner.gradient();
      learner.weights.grad += on_pieces(learner.weights.layout(), 1000 * t + group->rank());
      learner.apply(t);
    }
    learner.strategy->finish(learner.weights.x);
    EXPECT_LT(distance(learner.weights.x, learner.target), 0.3 * before);
  });
}

TEST_P(OneBitStrategy, GoesOnFromItsStateToTheBitInEveryStage) {
  for (int64_t cut : {3, 8, 9, 13, 22}) {
    std::vector<at::Tensor> straight(2), resumed(2);
    comm::run_world(2, [&](comm::GroupPtr group) {
      const auto options = frozen_after(GetParam(), 8);
      Learner first(options, group, {}, 50 + group->rank());
      for (int64_t t = 1; t <= cut; ++t) first.step(t);
      State saved = first.strategy->state();
      for (auto& [name, entry] : saved) entry.value = entry.value.clone();
      const at::Tensor x = first.weights.x.clone();
      for (int64_t t = cut + 1; t <= 26; ++t) first.step(t);
      first.strategy->finish(first.weights.x);
      straight[group->rank()] = first.weights.x.clone();

      Learner second(options, group, {}, 50 + group->rank());
      second.weights.x.copy_(x);
      second.strategy->load(saved);
      for (int64_t t = cut + 1; t <= 26; ++t) second.step(t);
      second.strategy->finish(second.weights.x);
      resumed[group->rank()] = second.weights.x.clone();
    });
    for (int rank : {0, 1}) EXPECT_TRUE(straight[rank].equal(resumed[rank])) << GetParam() << " cut at " << cut;
  }
}

TEST_P(OneBitStrategy, FinishLeavesAllReplicasOnTheWeightsThatAreEvaluated) {
  std::vector<at::Tensor> x(3);
  comm::run_world(3, [&](comm::GroupPtr group) {
    Learner learner(frozen_after(GetParam(), 4), group, {}, 50 + group->rank());
    for (int64_t t = 1; t <= 23; ++t) learner.step(t);
    learner.strategy->finish(learner.weights.x);
    EXPECT_TRUE(learner.strategy->consensus(learner.weights.x).equal(learner.weights.x));
    x[group->rank()] = learner.weights.x.clone();
  });
  EXPECT_TRUE(x[1].equal(x[0]));
  EXPECT_TRUE(x[2].equal(x[0]));
}

TEST_P(OneBitStrategy, NeverMovesAWeightWhoseGradientIsAlwaysZeroNorThePadding) {
  comm::run_world(2, [&](comm::GroupPtr group) {
    Learner learner(frozen_after(GetParam(), 6), group, {.weight_decay = 0}, 50 + group->rank());
    const at::Tensor start = learner.weights.x.clone();
    for (int64_t t = 1; t <= 25; ++t) {
      learner.gradient();
      learner.weights.grad.narrow(0, 100, 200).zero_();
      learner.apply(t);
    }
    EXPECT_TRUE(learner.weights.x.narrow(0, 100, 200).equal(start.narrow(0, 100, 200)));
    EXPECT_TRUE(learner.weights.x.narrow(0, 1537, 2048 - 1537).equal(start.narrow(0, 1537, 2048 - 1537)));
    EXPECT_FALSE(learner.weights.x.narrow(0, 0, 100).equal(start.narrow(0, 0, 100)));
  });
}

TEST_P(OneBitStrategy, ASkippedStepChangesNoWeight) {
  comm::run_world(2, [&](comm::GroupPtr group) {
    Learner learner(frozen_after(GetParam(), 3), group, {}, 50 + group->rank());
    for (int64_t t = 1; t <= 8; ++t) {
      learner.gradient();
      const at::Tensor before = learner.weights.x.clone();
      const bool skip = t == 2 || t == 6;
      learner.strategy->step({.x = learner.weights.x,
                              .next = learner.weights.x,
                              .grad = learner.weights.grad,
                              .lr = kRates,
                              .t = t,
                              .skip = skip});
      EXPECT_EQ(learner.weights.x.equal(before), skip) << t;
    }
  });
}

TEST_P(OneBitStrategy, SendsOneBitPerNumberAfterTheFreeze) {
  comm::run_world(4, [&](comm::GroupPtr group) {
    auto options = frozen_after(GetParam(), 3);
    options.zero_one.local_step_clipper = 1;
    Learner learner(options, group, {.clip = INFINITY}, 50 + group->rank());
    for (int64_t t = 1; t <= 5; ++t) learner.step(t);
    const int64_t before = group->ledger().sent(comm::TrafficKind::payload);
    learner.step(6);
    const compress::CompressedAllReduce mean(group, compress::make_codec("one_bit"));
    EXPECT_EQ(group->ledger().sent(comm::TrafficKind::payload) - before, mean.bytes(learner.weights.x.numel()));
  });
}

TEST_P(OneBitStrategy, ClippingChangesTheStepAndKeepsReplicasEqual) {
  auto options = frozen_after(GetParam(), 6);
  options.zero_one.local_step_clipper = 1;
  const auto clipped = train(options, 3, 20, {.clip = 0.5}).x, free = train(options, 3, 20, {.clip = INFINITY}).x;
  EXPECT_TRUE(clipped[1].equal(clipped[0]));
  EXPECT_FALSE(clipped[0].equal(free[0]));
}

INSTANTIATE_TEST_SUITE_P(All, OneBitStrategy, testing::ValuesIn(kNames));

TEST(OneBit, ClippingAfterTheFreezeReducesOneNumber) {
  comm::run_world(2, [](comm::GroupPtr group) {
    Learner learner(frozen_after("one_bit_lamb", 2), group, {.clip = 0.5}, 50 + group->rank());
    for (int64_t t = 1; t <= 3; ++t) learner.step(t);
    const int64_t before = group->ledger().sent(comm::TrafficKind::control);
    learner.step(4);
    EXPECT_EQ(group->ledger().sent(comm::TrafficKind::control) - before, 8);
  });
}

TEST(OneBitAdam, WarmUpIsAllReduceWithAdamw) {
  for (bool correction : {false, true}) {
    const optim::OptimOptions optim{.name = "adamw", .bias_correction = correction, .clip = 0.7};
    const auto ours = train(frozen_after("one_bit_adam", 100), 3, 12, optim).x;
    const auto plain = train(preset("all_reduce"), 3, 12, optim).x;
    EXPECT_LT(distance(ours[0], plain[0]), 1e-6);
  }
}

TEST(OneBitLamb, WarmUpIsAllReduceWithLamb) {
  for (bool correction : {false, true}) {
    const optim::OptimOptions optim{.name = "lamb", .bias_correction = correction, .clip = 0.7};
    const auto ours = train(frozen_after("one_bit_lamb", 100), 3, 12, optim).x;
    const auto plain = train(preset("all_reduce"), 3, 12, optim).x;
    EXPECT_LT(distance(ours[0], plain[0]), 1e-6);
  }
}

TEST(OneBit, ACompressedWarmUpIsCheaperAndAlmostTheSame) {
  auto warm = [](int64_t bits) {
    auto options = frozen_after("one_bit_adam", 100);
    options.one_bit.warmup_bits = {bits};
    return train(options, 3, 12).x[0];
  };
  const at::Tensor exact = warm(32);
  EXPECT_FALSE(warm(8).equal(exact));
  EXPECT_LT(distance(warm(8), exact), 0.01);
  EXPECT_LT(distance(warm(4), exact), 0.05);
}

TEST(OneBit, AloneNothingIsCompressed) {
  // One replica: after the freeze m is exact, so only the frozen v differs from Adam with beta2 = 1 from there on.
  const optim::OptimOptions optim{.weight_decay = 0, .bias_correction = false, .clip = INFINITY};
  comm::run_world(1, [&](comm::GroupPtr group) {
    Learner learner(frozen_after("one_bit_adam", 5), group, optim, 50);
    at::Tensor x = learner.weights.x.clone(), m = at::zeros_like(x), v = at::zeros_like(x);
    for (int64_t t = 1; t <= 15; ++t) {
      const at::Tensor g = x - learner.target;
      m = 0.9 * m + 0.1 * g;
      if (t <= 5) v = 0.95 * v + 0.05 * g * g;
      x = x - 0.02 * m / (v.sqrt() + 1e-8);
      learner.step(t);
    }
    EXPECT_LT(distance(learner.weights.x, x), 1e-5);
    EXPECT_EQ(group->ledger().sent(), 0);
  });
}

// The rule by hand, in double precision: x=[1,-2], m_last=[.1,-.2], m=[.15,-.15], v=vfresh=[.04,.09].
TEST(LambRenew, GivesTheKnownAnswer) {
  const at::Tensor x = at::tensor({1.f, -2.f}), last = at::tensor({.1f, -.2f}), v = at::tensor({.04f, .09f});
  const at::Tensor m = at::tensor({.15f, -.15f}), fresh = v.clone(), next = at::zeros({2});
  const kernels::LambStep step{kernels::moments({.9, .999}, 1e-8), .01f};
  const auto norms = kernels::lamb_renew(x, m, last, v, fresh, {0, 2}, 1, true, kernels::kNoReach, step);
  EXPECT_NEAR(fresh[0].item<float>(), .04032, 1e-7);
  EXPECT_NEAR(fresh[1].item<float>(), .09, 1e-7);
  EXPECT_NEAR(norms.u, .75999996 * .75999996 + .51999998 * .51999998, 1e-6);
  const double r = OneBitLamb::damped_ratio(norms, .01, 1);
  EXPECT_NEAR(r, 1, 1e-6);
  kernels::lamb_apply(next, x, m, v, {0, 2}, static_cast<float>(.01 * .2 * r), step);
  EXPECT_NEAR(next[0].item<float>(), .99848, 1e-6);
  EXPECT_NEAR(next[1].item<float>(), -1.99896, 1e-6);
}

TEST(DampedRatio, FollowsWeightDecaysShareOfTheStep) {
  // q = ||m/(sqrt v + eps)|| / ||u|| = 1/2: half of the step is the gradient's, so half of r counts.
  EXPECT_NEAR(OneBitLamb::damped_ratio({.adam = 1, .u = 4, .ratio = 1.1f}, 0.01, 1), 1.05, 1e-7);
  EXPECT_NEAR(OneBitLamb::damped_ratio({.adam = 1, .u = 4, .ratio = 1.1f}, 0, 1), 1.1, 1e-7) << "no decay, no damping";
  EXPECT_NEAR(OneBitLamb::damped_ratio({.adam = 9, .u = 4, .ratio = 1.05f}, 0.01, 1), 1.05, 1e-7) << "q is at most 1";
}

TEST(DampedRatio, StaysWithinItsBoundsAndNearTheOneBefore) {
  EXPECT_DOUBLE_EQ(OneBitLamb::damped_ratio({.ratio = 3}, 0, 1), 1.1);
  EXPECT_DOUBLE_EQ(OneBitLamb::damped_ratio({.ratio = 0.2f}, 0, 1), 0.9);
  EXPECT_DOUBLE_EQ(OneBitLamb::damped_ratio({.ratio = 9}, 0, 3.9), 4) << "at most 4";
  EXPECT_DOUBLE_EQ(OneBitLamb::damped_ratio({.ratio = 0.1f}, 0, 0.52), 0.5) << "at least 0.5";
}

TEST(ZeroOneAdam, ExchangesEverMoreRarely) {
  comm::run_world(2, [](comm::GroupPtr group) {
    Learner learner(frozen_after("zero_one_adam", 4), group, {.clip = INFINITY}, 50 + group->rank());
    std::vector<int64_t> exchanged;
    for (int64_t t = 1; t <= 40; ++t) {
      const int64_t before = group->ledger().sent();
      learner.step(t);
      if (t > 5 && group->ledger().sent() > before) exchanged.push_back(t);
    }
    // Frozen after step 5; the interval doubles 5 and 10 steps later, and 4 is the most.
    EXPECT_EQ(exchanged, (std::vector<int64_t>{6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 36, 40}));
  });
}

TEST(OneBit, NamesTheParameterWhoseMomentumIsNotFinite) {
  try {
    comm::run_world(2, [](comm::GroupPtr group) {
      Learner learner(frozen_after("one_bit_adam", 2), group, {.clip = INFINITY}, 50 + group->rank());
      for (int64_t t = 1; t <= 3; ++t) {
        learner.gradient();
        if (t == 3 && group->rank() == 1) learner.weights.grad[2048 + 7] = NAN;
        learner.apply(t);
      }
    });
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_NE(one_line(error).find("the momentum of element 7 of second is nan"), std::string::npos) << error.what();
  }
}

// A coordinate whose gradient is nothing until the second moment is frozen, and something afterwards.
float largest_late_weight(const std::string& name, bool reach) {
  float largest = 0;
  comm::run_world(2, [&](comm::GroupPtr group) {
    auto options = frozen_after(name, 6);
    options.one_bit.reach = reach;
    options.zero_one = {.var_update_scaler = 3, .local_step_scaler = 2, .local_step_clipper = 8};
    Learner learner(options, group, {.weight_decay = 0, .clip = INFINITY}, 50 + group->rank());
    for (int64_t t = 1; t <= 30; ++t) {
      learner.gradient();
      learner.weights.grad[3].fill_(t <= 7 ? 0.0 : 1.0);
      learner.apply(t);
      if (group->rank() == 0) largest = std::max(largest, std::abs(learner.weights.x[3].item<float>()));
    }
  });
  return largest;
}

TEST_P(OneBitStrategy, ACoordinateThatWasNeverLearntDoesNotBlowUpBetweenExchanges) {
  for (bool reach : {true, false}) EXPECT_LT(largest_late_weight(GetParam(), reach), 5) << "reach " << reach;
}

// How far a coordinate moves in one step after the freeze, at most, that was seen once, long before it: its second
// moment has nearly vanished.
float longest_rare_step(const std::string& name, bool reach) {
  float longest = 0;
  comm::run_world(2, [&](comm::GroupPtr group) {
    auto options = frozen_after(name, 220);
    options.one_bit.reach = reach;
    Learner learner(options, group, {.weight_decay = 0, .clip = INFINITY}, 50 + group->rank());
    for (int64_t t = 1; t <= 240; ++t) {
      learner.gradient();
      learner.weights.grad[3].fill_(t == 1 ? 0.1 : 0.0);
      const float before = learner.weights.x[3].item<float>();
      learner.apply(t);
      if (group->rank() == 0 && t > 220)
        longest = std::max(longest, std::abs(learner.weights.x[3].item<float>() - before));
    }
  });
  return longest;
}

TEST(OneBit, ReachKeepsARareCoordinateInItsPlace) {
  const double adam = kRates[0] * kernels::adam_reach(0.9, 0.95);  // as far as Adam could go, bias correction aside
  EXPECT_LT(longest_rare_step("one_bit_adam", true), 1.1 * adam);
  EXPECT_GT(longest_rare_step("one_bit_adam", false), 20 * adam) << "as published";
  EXPECT_GT(longest_rare_step("one_bit_lamb", false), 20 * longest_rare_step("one_bit_lamb", true));
}

}  // namespace
}  // namespace thinwire::dp
