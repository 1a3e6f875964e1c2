// One SGD update of n elements, in one pass: d = g + wd x;  m = mu m + d (without m: m = d);  next = x - lr m.
#pragma once

#include <cstdint>

namespace thinwire::kernels {

struct SgdStep {
  float lr, momentum, weight_decay;
};
// m may be nullptr; next may be x.
void sgd(float* next, const float* x, const float* g, float* m, int64_t n, const SgdStep& step);

}  // namespace thinwire::kernels
