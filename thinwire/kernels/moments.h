// The decay of Adam's two moments as kernels take it: from fp64, and 1 - beta before it is rounded, as torch does it.
// In fp32, 1 - .999f would be wrong in the fifth digit.
#pragma once

#include <array>

namespace thinwire::kernels {

struct Moments {
  float beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
};

inline Moments moments(const std::array<double, 2>& betas, double eps) {
  const auto [b1, b2] = betas;
  return {.beta1 = static_cast<float>(b1),
          .one_minus_beta1 = static_cast<float>(1 - b1),
          .beta2 = static_cast<float>(b2),
          .one_minus_beta2 = static_cast<float>(1 - b2),
          .eps = static_cast<float>(eps)};
}

}  // namespace thinwire::kernels
