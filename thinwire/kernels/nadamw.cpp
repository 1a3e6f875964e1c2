#include "thinwire/kernels/nadamw.h"

#include <cmath>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/memory.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

THINWIRE_CLONES void task(float* next, const float* x, const float* __restrict g, float* __restrict m,
                          float* __restrict v, int64_t n, const NadamwStep s) {
  const Moments b = s.moments;
  THINWIRE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    m[i] = b.beta1 * m[i] + b.one_minus_beta1 * g[i];
    v[i] = b.beta2 * v[i] + b.one_minus_beta2 * (g[i] * g[i]);
    next[i] = s.decay * x[i] - (s.rate_g * g[i] + s.rate_m * m[i]) / (std::sqrt(v[i]) * s.root + b.eps);
  }
}

}  // namespace

void nadamw(const at::Tensor& next, const at::Tensor& x, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v,
            Range range, const NadamwStep& step) {
  float *to = out(next, range), *pm = out(m, range), *pv = out(v, range);
  const float *px = in(x, range), *pg = in(g, range);
  for_tasks(range.numel, [&](int64_t i, int64_t end) { task(to + i, px + i, pg + i, pm + i, pv + i, end - i, step); });
}

}  // namespace thinwire::kernels
