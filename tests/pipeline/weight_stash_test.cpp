#include "thinwire/pipeline/weight_stash.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "thinwire/base/errors.h"
#include "thinwire/comm/world.h"
#include "thinwire/dp/catalog.h"

namespace thinwire::pipeline {
namespace {

// x of the first element after each update of gradient = weights (loss x^2/2), each minibatch w updates late; from x
// = 1.
std::vector<double> weights_of_squares(double predict, int64_t w, int64_t steps,
                                       const std::string& strategy = "all_reduce") {
  std::vector<double> x;
  comm::run_world(1, [&](std::shared_ptr<comm::TransportGroup> group) {
    const at::Tensor parameter = at::full({1}, 1.0f);
    optim::Flat weights({{parameter}});
    const optim::OptimOptions optim{.name = "sgd", .momentum = 0, .weight_decay = 0, .clip = INFINITY};
    auto rule = dp::make_strategy(dp::preset(strategy), weights, {.sync = group}, optim, steps);
    WeightStash stash(weights.x, w + 1, predict);
    const std::vector<double> lr = {0.1, 0.1};
    auto version = [&](int64_t b) { return std::max<int64_t>(0, b - w); };
    for (int64_t b = 0; b < w; ++b) stash.of(b, 0);
    for (int64_t b = 0; b < steps; ++b) {
      stash.of(b + w, version(b + w));              // F
      weights.grad.copy_(stash.of(b, version(b)));  // B
      stash.release(b);
      stash.advance(*rule, weights.grad, lr, b + 1);
      x.push_back(stash.newest()[0].item<double>());
    }
  });
  return x;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << i;
}

TEST(WeightStash, OneUpdateLateGivesTheKnownAnswers) {
  expect_near(weights_of_squares(0, 1, 4), {0.9, 0.8, 0.71, 0.63});
  expect_near(weights_of_squares(1, 1, 4), {0.9, 0.8, 0.72, 0.65});
}

TEST(WeightStash, PredictionIsExactWhereEveryUpdateIsTheSame) {
  comm::run_world(1, [](std::shared_ptr<comm::TransportGroup> group) {
    const at::Tensor parameter = at::full({1}, 1.0f);
    optim::Flat weights({{parameter}});
    const optim::OptimOptions optim{.name = "sgd", .momentum = 0, .weight_decay = 0, .clip = INFINITY};
    auto strategy = dp::make_strategy(dp::preset("all_reduce"), weights, {.sync = group}, optim, 8);
    WeightStash stash(weights.x, 4, 1);
    const std::vector<double> lr = {0.125, 0.125};
    auto update = [&](int64_t t) { stash.advance(*strategy, weights.grad.fill_(0.5), lr, t); };
    for (int64_t t = 1; t <= 3; ++t) update(t);
    const at::Tensor predicted = stash.of(6, 3);  // three updates from now
    for (int64_t t = 4; t <= 6; ++t) update(t);
    EXPECT_TRUE(predicted.equal(stash.newest()));
    EXPECT_EQ(stash.peak(), 3) << "the newest, the change and the prediction";
  });
}

TEST(WeightStash, GoesOnFromASavedStateWithTheSameNumbers) {
  comm::run_world(1, [](std::shared_ptr<comm::TransportGroup> group) {
    optim::Flat weights({{at::full({1}, 1.0f)}});
    const optim::OptimOptions optim{.name = "sgd", .momentum = 0, .weight_decay = 0, .clip = INFINITY};
    auto strategy = dp::make_strategy(dp::preset("all_reduce"), weights, {.sync = group}, optim, 8);
    for (const double predict : {0.0, 1.0}) {
      WeightStash stash(weights.x.clone(), 3, predict), again(at::zeros({weights.x.numel()}), 3, predict);
      const std::vector<double> lr = {0.125, 0.125};
      for (int64_t t = 1; t <= 4; ++t) {
        stash.of(t + 1, t - 1);  // F, two updates before its B
        stash.advance(*strategy, weights.grad.fill_(static_cast<float>(t)), lr, t);
        stash.release(t - 1);
      }
      State state;
      stash.put(state, "a.");
      again.get(state, "a.", 4, 2);
      EXPECT_EQ(again.done(), 4);
      for (int64_t b : {4, 5, 6}) EXPECT_TRUE(again.of(b, b - 2).equal(stash.of(b, b - 2))) << predict << ", " << b;
      EXPECT_THROW(again.get(state, "a.", 5, 2), BadInput) << "it counts four updates";
      if (predict > 0) {
        EXPECT_THROW(again.get(state, "a.", 4, 3), BadInput) << "it holds two predictions";
      }
    }
  });
}

TEST(WeightStash, AStrategyThatIsItsOwnRuleCannotBePredicted) {
  EXPECT_THROW(weights_of_squares(1, 1, 2, "one_bit_adam"), c10::Error);
}

}  // namespace
}  // namespace thinwire::pipeline
