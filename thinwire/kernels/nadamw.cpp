#include "thinwire/kernels/nadamw.h"

#include <cmath>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

THINWIRE_CLONES void task(float* next, const float* x, const float* __restrict g, float* __restrict m,
                          float* __restrict v, int64_t n, const NadamwStep s) {
#pragma GCC ivdep  // next is x or apart from it, element by element
  for (int64_t i = 0; i < n; ++i) {
    m[i] = s.beta1 * m[i] + s.one_minus_beta1 * g[i];
    v[i] = s.beta2 * v[i] + s.one_minus_beta2 * (g[i] * g[i]);
    next[i] = s.decay * x[i] - (s.rate_g * g[i] + s.rate_m * m[i]) / (std::sqrt(v[i]) * s.root + s.eps);
  }
}

}  // namespace

void nadamw(float* next, const float* x, const float* g, float* m, float* v, int64_t n, const NadamwStep& step) {
  for_tasks(n, [&](int64_t begin, int64_t end) {
    task(next + begin, x + begin, g + begin, m + begin, v + begin, end - begin, step);
  });
}

}  // namespace thinwire::kernels
