// One SGD update, in one pass over memory:
//
//   d = g + wd x;   m = mu m + d (without m: m = d);   next = x - lr m
#pragma once

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

// Of one parameter group; rounded to fp32 once.
struct SgdStep {
  float lr, momentum, weight_decay;  // mu is momentum, wd weight_decay
};
// Equal to torch.optim.SGD without dampening. m may be undefined, where momentum is 0; next may be x.
void sgd(const at::Tensor& next, const at::Tensor& x, const at::Tensor& g, const at::Tensor& m, Range range,
         const SgdStep& step);

}  // namespace thinwire::kernels
