// One NAdamW update, in one pass over memory (Dozat 2016, with the decoupled decay of 1711.05101):
//
//   m = beta1 m + (1-beta1) g;   v = beta2 v + (1-beta2) g^2
//   next = x decay - (rate_g g + rate_m m) / (sqrt(v) root + eps)
//
// with decay = 1 - lr wd, root = 1 / sqrt(1 - beta2^t), and the rates of optim/nadamw.h: rate_g = lr (1-mu_t) /
// (1-Pi_t) and rate_m = lr mu_{t+1} / (1-Pi_{t+1}). next may be x.
#pragma once

#include "thinwire/kernels/moments.h"
#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

// Of one parameter group and step; rounded to fp32 once.
struct NadamwStep {
  Moments moments;
  float decay, rate_g, rate_m, root;
};
void nadamw(const at::Tensor& next, const at::Tensor& x, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v,
            Range range, const NadamwStep& step);

}  // namespace thinwire::kernels
