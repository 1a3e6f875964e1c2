// One AdamW update of n elements, in one pass over memory (Loshchilov and Hutter, 1711.05101):
//
//   m = beta1 m + (1-beta1) g;   v = beta2 v + (1-beta2) g^2
//   next = x decay - rate m / (sqrt(v) root + eps)
//
// with decay = 1 - lr wd, rate = lr / (1 - beta1^t), root = 1 / sqrt(1 - beta2^t); the last two are lr and 1 without
// bias correction. next may be x.
#pragma once

#include <cstdint>

namespace thinwire::kernels {

struct AdamwStep {
  float beta1, one_minus_beta1, beta2, one_minus_beta2;
  float decay, rate, root, eps;
};
void adamw(float* next, const float* x, const float* g, float* m, float* v, int64_t n, const AdamwStep& step);

// m = beta1 m + (1-beta1) g: the part of it that 1-bit Adam does before it sends.
void momentum(float* m, const float* g, int64_t n, float beta1, float one_minus_beta1);
// And what it does with what arrives, v being frozen: m = 0 where masked and v is 0 (nothing was ever learnt there, and
// a sign cannot say zero), elsewhere within reach (reach.h) of sqrt(v) + eps; next as above.
void frozen_adamw(float* next, const float* x, float* m, const float* v, int64_t n, bool masked, float reach,
                  const AdamwStep& step);

}  // namespace thinwire::kernels
