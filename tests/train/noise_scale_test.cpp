#include "thinwire/train/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace thinwire::train {
namespace {

// Two workers with batches of 4 and gradients [3, 0] and [1, 0]: S = (9 + 1) / 2, L = 2^2.
TEST(NoiseScale, GivesTheKnownAnswer) {
  NoiseScale noise;
  noise.add(5, 4, 4, 8);
  EXPECT_DOUBLE_EQ(noise.g2(), 3);
  EXPECT_DOUBLE_EQ(noise.trace(), 8);
  EXPECT_DOUBLE_EQ(noise.batch().value(), 8.0 / 3);
}

TEST(NoiseScale, FindsTheRatioThatGradientsWereDrawnWith) {
  // One example's gradient is 1 + noise of variance 50 in one dimension: trS / G2 = 50.
  std::mt19937 dice(3);
  std::normal_distribution<> normal;
  NoiseScale noise;
  for (int t = 0; t < 3000; ++t) {
    double sum = 0, squares = 0;
    for (int worker = 0; worker < 4; ++worker) {
      const double g = 1 + std::sqrt(50.0 / 64) * normal(dice);
      sum += g / 4, squares += g * g / 4;
    }
    noise.add(squares, sum * sum, 64, 256);
  }
  EXPECT_NEAR(noise.batch().value(), 50, 15);
}

TEST(NoiseScale, SaysNothingWhereNothingIsKnown) {
  NoiseScale noise;
  EXPECT_FALSE(noise.batch());
  noise.add(5, 5, 8, 8);  // one replica
  noise.add(0, 0, 4, 8);  // no gradient
  EXPECT_FALSE(noise.batch());
  noise.add(8, 1, 4, 8);  // all noise: G2 < 0
  EXPECT_FALSE(noise.batch());
}

TEST(NoiseScale, GoesOnFromItsState) {
  NoiseScale straight, resumed;
  straight.add(5, 4, 4, 8);
  State state;
  straight.put(state, "noise.");
  resumed.get(state, "noise.");
  straight.add(6, 4, 4, 8), resumed.add(6, 4, 4, 8);
  EXPECT_EQ(straight.batch(), resumed.batch());
}

}  // namespace
}  // namespace thinwire::train
