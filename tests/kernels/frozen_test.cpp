// What 1-bit Adam, 1-bit LAMB and 0/1 Adam do with what arrives, against plain definitions in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "numbers.h"
#include "thinwire/kernels/adamw.h"
#include "thinwire/kernels/lamb.h"
#include "thinwire/kernels/reach.h"
#include "thinwire/kernels/zero_one.h"

namespace thinwire::kernels {
namespace {

using Vector = std::vector<float>;

// Second moments of many sizes: ordinary, nearly vanished, and none.
Vector second_moments(int64_t n) {
  Vector v(n);
  for (int64_t i = 0; i < n; ++i)
    v[i] = i % 5 == 0 ? 0.0f : i % 5 == 1 ? 1e-14f : 0.01f * static_cast<float>(1 + i % 7);
  return v;
}
Vector wave(int64_t n, double speed) {
  Vector x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(std::sin(speed * static_cast<double>(i) + speed));
  return x;
}

double plain_clamp(double m, double reach, double root) { return std::min(std::max(m, -reach * root), reach * root); }

void expect_near(const Vector& got, const std::vector<double>& wanted, const char* what) {
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(got[i], wanted[i], 2e-6 * (1 + std::abs(wanted[i]))) << what << " at " << i << " of " << wanted.size();
}

TEST(Reach, IsTheBoundOfAdamsMomentum) {
  EXPECT_DOUBLE_EQ(adam_reach(0, 0.75), 2);
  EXPECT_NEAR(adam_reach(0.9, 0.95), 1.16496, 5e-6);
  EXPECT_NEAR(adam_reach(0.9, 0.999), 7.27, 5e-3);
  EXPECT_TRUE(std::isinf(adam_reach(0.9, 0.81)));
  EXPECT_TRUE(std::isinf(adam_reach(0.99, 0.95)));
}

TEST(Reach, ChangesNothingWhereMomentsAreExactAndGoOn) {
  for (const auto& [b1, b2] : {std::pair{0.9, 0.95}, {0.9, 0.999}, {0.5, 0.6}, {0.0, 0.75}}) {
    const double reach = adam_reach(b1, b2);
    double worst = 0;
    for (int pattern = 0; pattern < 40; ++pattern) {
      double m = 0, v = 0;
      for (int t = 0; t < 400; ++t) {  // bursts, silence, growth and decay: what stretches m over sqrt(v) most
        const double g = pattern % 4 == 0   ? (t % (3 + pattern) == 0 ? 1.0 : 0.0)
                         : pattern % 4 == 1 ? std::pow(0.98, t)
                         : pattern % 4 == 2 ? std::pow(b1 / b2, -t % 60)
                                            : std::sin(t * (0.01 + 0.05 * pattern));
        m = b1 * m + (1 - b1) * g;
        v = b2 * v + (1 - b2) * g * g;
        if (v > 0) worst = std::max(worst, std::abs(m) / std::sqrt(v));
      }
    }
    EXPECT_LE(worst, reach * (1 + 1e-12)) << b1 << " " << b2;
    EXPECT_GT(worst, 0.6 * reach) << "the bound should be near what happens: " << b1 << " " << b2;
  }
}

struct Settings {
  bool masked;
  float reach;
};
const Settings kSettings[] = {{false, kNoReach}, {true, kNoReach}, {true, 1.165f}, {false, 0.5f}};

TEST(FrozenAdamw, IsItsDefinition) {
  const AdamwStep s{{0.9f, 0.1f, 0.95f, 0.05f, 1e-8f}, 0.999f, 0.01f, 1.25f};
  const Moments b = s.moments;
  for (const auto& [masked, reach] : kSettings)
    for (int64_t n : kSizes) {
      const Vector x = wave(n, 0.7), v = second_moments(n);
      Vector m = wave(n, 1.3), next(n);
      std::vector<double> wanted_m(n), wanted(n);
      for (int64_t i = 0; i < n; ++i) {
        const double root = std::sqrt(static_cast<double>(v[i]));
        wanted_m[i] = masked && v[i] == 0 ? 0 : plain_clamp(m[i], reach, root + b.eps);
        wanted[i] = s.decay * x[i] - s.rate * wanted_m[i] / (root * s.root + b.eps);
      }
      frozen_adamw(on(next), on(x), on(m), on(v), {0, n}, masked, reach, s);
      expect_near(m, wanted_m, "m");
      for (int64_t i = 0; i < n; ++i)
        ASSERT_NEAR(next[i], wanted[i], 1e-5 * (1 + std::abs(wanted[i]))) << i << " of " << n;
    }
}

TEST(LambRenew, IsItsDefinition) {
  const LambStep s{{0.9f, 0.1f, 0.95f, 0.05f, 1e-6f}, 0.1f};
  const Moments b = s.moments;
  for (const auto& [masked, reach] : kSettings)
    for (int64_t n : kSizes) {
      const Vector x = wave(n, 0.7), v = second_moments(n), last = wave(n, 0.2);
      Vector m = wave(n, 1.3), fresh = second_moments(n);
      std::vector<double> wanted_m(n), wanted_fresh(n);
      double adam = 0, u = 0, ratio = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double root = std::sqrt(static_cast<double>(v[i])) + b.eps;
        wanted_m[i] = masked && v[i] == 0 ? 0 : plain_clamp(m[i] / 4.0, reach, root);
        const double ghat = (wanted_m[i] - b.beta1 * last[i]) / b.one_minus_beta1;
        wanted_fresh[i] = b.beta2 * fresh[i] + b.one_minus_beta2 * ghat * ghat;
        ratio = std::max(ratio, root / (std::sqrt(wanted_fresh[i]) + b.eps));
        adam += std::pow(wanted_m[i] / root, 2);
        u += std::pow(wanted_m[i] / root + s.weight_decay * x[i], 2);
      }
      const auto norms = lamb_renew(on(x), on(m), on(last), on(v), on(fresh), {0, n}, 4.0f, masked, reach, s);
      expect_near(m, wanted_m, "m");
      expect_near(fresh, wanted_fresh, "fresh");
      EXPECT_NEAR(norms.adam, adam, 1e-5 * (1 + adam));
      EXPECT_NEAR(norms.u, u, 1e-5 * (1 + u));
      EXPECT_NEAR(norms.ratio, ratio, 1e-5 * (1 + ratio));
    }
}

TEST(ZeroOne, ALocalStepIsItsDefinition) {
  for (const auto& [masked, reach] : kSettings)
    for (int64_t n : kSizes) {
      const LocalStep s{{0.9f, 0.1f, 0.95f, 0.05f, 1e-6f}, 0.01f, 0.1f, reach, masked};
      const Moments b = s.moments;
      const Vector x = wave(n, 0.7), g = wave(n, 2.1), v = second_moments(n), synced = wave(n, 0.4);
      Vector m = wave(n, 1.3), moved = wave(n, 0.9), next(n);
      std::vector<double> wanted_m(n), wanted_moved(n);
      for (int64_t i = 0; i < n; ++i) {
        const double root = std::sqrt(static_cast<double>(v[i])) + b.eps;
        wanted_m[i] = masked && v[i] == 0 ? 0 : plain_clamp(b.beta1 * m[i] + b.one_minus_beta1 * g[i], reach, root);
        wanted_moved[i] = moved[i] - s.lr * (wanted_m[i] / root + s.weight_decay * x[i]);
      }
      local_step({on(next), on(x), on(g), on(m), on(v), on(moved), on(synced)}, {0, n}, s);
      expect_near(m, wanted_m, "m");
      for (int64_t i = 0; i < n; ++i) {
        ASSERT_NEAR(moved[i], wanted_moved[i], 1e-5 * (1 + std::abs(wanted_moved[i]))) << i << " of " << n;
        ASSERT_EQ(next[i], synced[i] + moved[i]);
        if (masked && v[i] == 0) {
          ASSERT_LT(std::abs(moved[i]), 2) << "nothing was learnt there: it stays";
        }
      }
    }
}

TEST(ZeroOne, AnExchangeIsItsDefinition) {
  for (const auto& [masked, reach] : kSettings)
    for (int64_t n : kSizes) {
      const float eps = 1e-6f, lr_sum = 0.04f;
      const Vector v = second_moments(n), before = wave(n, 0.4), arrived = wave(n, 0.9);
      Vector m(n), moved = arrived, synced = before, next(n);
      sync_step({on(next), {}, {}, on(m), on(v), on(moved), on(synced)}, {0, n}, lr_sum, eps, reach, masked);
      for (int64_t i = 0; i < n; ++i) {
        const double root = std::sqrt(static_cast<double>(v[i])) + eps;
        const double h = masked && v[i] == 0 ? 0 : plain_clamp(arrived[i], lr_sum * reach, root);
        ASSERT_NEAR(synced[i], before[i] + h / root, 1e-5 * (1 + std::abs(h / root))) << i << " of " << n;
        ASSERT_NEAR(m[i], -h / lr_sum, 1e-5 * (1 + std::abs(h / lr_sum)));
        ASSERT_EQ(next[i], synced[i]);
        ASSERT_EQ(moved[i], 0);
      }
    }
}

}  // namespace
}  // namespace thinwire::kernels
