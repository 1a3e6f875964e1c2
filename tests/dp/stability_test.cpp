// Where periodic averaging stops being stable, known beforehand. On a quadratic, with identical replicas, a round of
// local steps removes the fraction a of the error; with kappa = alpha a / Lambda the outer recursion is linear and its
// bound has a closed form. Each is tried just below and just above.
#include <gtest/gtest.h>

#include <cmath>

#include "quadratic.h"

namespace thinwire::dp {
namespace {

// The error that is left of 1 after many rounds.
double error_after(const PeriodicOptions& options, double a, int rounds = 6000) {
  double error = 0;
  comm::run_world(1, [&](comm::GroupPtr group) {
    const auto layout = optim::make_layout({{at::zeros({1})}});
    at::Tensor x = at::zeros({layout.numel}, at::kFloat), grad = at::zeros_like(x);
    x[0] = 1;
    Periodic strategy(layout, {.sync = group}, plain_sgd(layout), options, x);
    const double lr[] = {a, a};
    for (int t = 1; t <= rounds; ++t) {
      grad.copy_(x);
      strategy.step({.x = x, .next = x, .grad = grad, .lr = lr, .t = t});
    }
    error = std::abs(strategy.consensus(x)[0].item<double>());
  });
  return error;
}

PeriodicOptions outer(const std::string& rule, int64_t delay, double alpha, double beta, double keep = 0) {
  return {.period = 1,
          .delay = delay,
          .outer = rule,
          .outer_lr = alpha,
          .momentum = beta,
          .keep = {.share = keep},
          .sync_rounds = 0};
}

void expect_bound(const std::string& rule, int64_t delay, double beta, double bound) {
  constexpr double a = 0.6;  // kappa is set by alpha
  EXPECT_LT(error_after(outer(rule, delay, (bound - 0.01) / a, beta), a), 0.1) << rule << delay << " beta " << beta;
  EXPECT_FALSE(error_after(outer(rule, delay, (bound + 0.01) / a, beta), a) < 10) << rule << delay << " beta " << beta;
}

TEST(Stability, HeavyBallOneRoundLateNeedsKappaBelowOneMinusBeta) {
  for (double beta : {0.0, 0.2, 0.5, 0.9}) expect_bound("heavy_ball", 1, beta, 1 - beta);
}

TEST(Stability, HeavyBallWithoutDelayNeedsKappaBelowTwoPlusTwoBeta) {
  for (double beta : {0.0, 0.2, 0.5, 0.9}) expect_bound("heavy_ball", 0, beta, 2 * (1 + beta));
}

TEST(Stability, NesterovWithoutDelay) {
  for (double b : {0.2, 0.5, 0.9}) expect_bound("nesterov", 0, b, 2 * (1 + b) / (1 + 2 * b));
}

TEST(Stability, NesterovOneRoundLate) {
  const std::pair<double, double> known[] = {{0.2, 0.8062}, {0.5, 0.5616}, {0.6, 0.4900}, {0.9, 0.2531}};
  for (auto [b, bound] : known) {
    const double q = 1 - b * b;
    EXPECT_NEAR((std::sqrt(q * q + 4 * b * b * (1 - b)) - q) / (2 * b * b), bound, 5e-5);
    expect_bound("nesterov", 1, b, bound);
  }
}

TEST(Stability, KeptProgressWithHeavyBall) {
  for (auto [b, w] : {std::pair{0.5, 0.5}, {0.2, 0.25}, {0.2, 0.4}}) {
    const double p = b * w * w, q = w * (1 + b) - 1 / (1 - b);
    const double bound = (-q - std::sqrt(q * q - 4 * p)) / (2 * p);
    if (b == 0.5) {
      EXPECT_NEAR(bound, 0.877, 5e-4);
    }
    EXPECT_LT(error_after(outer("heavy_ball", 1, 1, b, w), bound - 0.01), 0.1) << b << " " << w;
    EXPECT_FALSE(error_after(outer("heavy_ball", 1, 1, b, w), bound + 0.01) < 10) << b << " " << w;
  }
}

TEST(Stability, DelayedDilocoWithTheOuterRateOfDilocoDiverges) {
  auto options = preset("delayed_diloco").periodic;
  options.period = 1, options.sync_rounds = 0;
  EXPECT_LT(error_after(options, 0.9), 0.1);
  options.outer_lr = 0.7;
  EXPECT_FALSE(error_after(options, 0.9) < 10);
}

}  // namespace
}  // namespace thinwire::dp
