// The decay of Adam's two moments as kernels take it: from fp64, and 1 - beta before it is rounded, as torch does it.
// In fp32, 1 - .999f would be wrong in the fifth digit. Every rule with two moments (adamw.h, nadamw.h, lamb.h,
// zero_one.h) takes them in this form, so all of them round alike.
#pragma once

#include <array>

namespace thinwire::kernels {

// beta1 decays the first moment, beta2 the second; eps is added to the root of the second.
struct Moments {
  float beta1, one_minus_beta1;  // m = beta1 m + one_minus_beta1 g
  float beta2, one_minus_beta2;  // v = beta2 v + one_minus_beta2 g^2
  float eps;
};

// betas in [0, 1), eps > 0. The one place where they are rounded to fp32.
inline Moments moments(const std::array<double, 2>& betas, double eps) {
  const auto [b1, b2] = betas;
  return {.beta1 = static_cast<float>(b1),
          .one_minus_beta1 = static_cast<float>(1 - b1),
          .beta2 = static_cast<float>(b2),
          .one_minus_beta2 = static_cast<float>(1 - b2),
          .eps = static_cast<float>(eps)};
}

}  // namespace thinwire::kernels
