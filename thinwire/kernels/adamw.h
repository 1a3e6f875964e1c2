// One AdamW update, in one pass over memory (Loshchilov and Hutter, 1711.05101):
//
//   m = beta1 m + (1-beta1) g;   v = beta2 v + (1-beta2) g^2
//   next = x decay - rate m / (sqrt(v) root + eps)
//
// with decay = 1 - lr wd, rate = lr / (1 - beta1^t), root = 1 / sqrt(1 - beta2^t); the last two are lr and 1 without
// bias correction. next may be x.
#pragma once

#include "thinwire/kernels/moments.h"
#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

struct AdamwStep {
  Moments moments;
  float decay, rate, root;
};
void adamw(const at::Tensor& next, const at::Tensor& x, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v,
           Range range, const AdamwStep& step);

// m = beta1 m + (1-beta1) g: the part of it that 1-bit Adam does before it sends.
void momentum(const at::Tensor& m, const at::Tensor& g, Range range, const Moments& moments);
// And what it does with what arrives, v being frozen: m = 0 where masked and v is 0 (nothing was ever learnt there, and
// a sign cannot say zero), elsewhere within reach (reach.h) of sqrt(v) + eps; next as above.
void frozen_adamw(const at::Tensor& next, const at::Tensor& x, const at::Tensor& m, const at::Tensor& v, Range range,
                  bool masked, float reach, const AdamwStep& step);

}  // namespace thinwire::kernels
