// One NAdamW update of n elements, in one pass over memory (Dozat 2016, with the decoupled decay of 1711.05101):
//
//   m = beta1 m + (1-beta1) g;   v = beta2 v + (1-beta2) g^2
//   next = x decay - (rate_g g + rate_m m) / (sqrt(v) root + eps)
//
// with decay = 1 - lr wd, root = 1 / sqrt(1 - beta2^t), and the rates of optim/nadamw.h. next may be x.
#pragma once

#include <cstdint>

namespace thinwire::kernels {

struct NadamwStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float decay, rate_g, rate_m, root, eps;
};
void nadamw(float* next, const float* x, const float* g, float* m, float* v, int64_t n, const NadamwStep& step);

}  // namespace thinwire::kernels
