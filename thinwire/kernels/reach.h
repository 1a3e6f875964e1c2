// How far Adam's momentum can be from zero, given its second moment (Cauchy-Schwarz over the sums that both are):
//
//   |m| <= B sqrt(v),   B = (1-beta1) / sqrt((1 - beta1^2/beta2) (1-beta2)),   no bound where beta1^2 >= beta2
//
// A momentum that arrives as signs does not know this. Where v has decayed (a token that is seen once in a while), a
// sign over sqrt(v) is a step thousands of times too far. So what arrives is clamped to what Adam's own could be.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace thinwire::kernels {

// For a kernel that is not to clamp.
inline constexpr float kNoReach = std::numeric_limits<float>::infinity();

// B above; infinite where there is no bound. In fp64, rounded once by the caller.
inline double adam_reach(double beta1, double beta2) {
  const double rest = 1 - beta1 * beta1 / beta2;
  return rest > 0 ? (1 - beta1) / std::sqrt(rest * (1 - beta2)) : std::numeric_limits<double>::infinity();
}

// m clamped to +- reach root, where root = sqrt(v) + eps. Inlined into kernels; with kNoReach nothing changes, and NaN
// stays NaN.
inline float within_reach(float m, float reach, float root) {
  const float most = reach * root;
  return std::min(std::max(m, -most), most);
}

}  // namespace thinwire::kernels
