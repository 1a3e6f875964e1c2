#include "thinwire/kernels/adamw.h"

#include <cmath>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/memory.h"
#include "thinwire/kernels/reach.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

THINWIRE_CLONES void task(float* next, const float* x, const float* __restrict g, float* __restrict m,
                          float* __restrict v, int64_t n, const AdamwStep s) {
  const Moments b = s.moments;
  THINWIRE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    m[i] = b.beta1 * m[i] + b.one_minus_beta1 * g[i];
    v[i] = b.beta2 * v[i] + b.one_minus_beta2 * (g[i] * g[i]);
    next[i] = s.decay * x[i] - s.rate * m[i] / (std::sqrt(v[i]) * s.root + b.eps);
  }
}

THINWIRE_CLONES void momentum_task(float* __restrict m, const float* __restrict g, int64_t n, const Moments b) {
  for (int64_t i = 0; i < n; ++i) m[i] = b.beta1 * m[i] + b.one_minus_beta1 * g[i];
}

THINWIRE_CLONES void frozen_task(float* next, const float* x, float* __restrict m, const float* __restrict v, int64_t n,
                                 bool masked, float reach, const AdamwStep s) {
  const float eps = s.moments.eps;
  THINWIRE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const float root = std::sqrt(v[i]);
    m[i] = masked && v[i] == 0 ? 0.0f : within_reach(m[i], reach, root + eps);
    next[i] = s.decay * x[i] - s.rate * m[i] / (root * s.root + eps);
  }
}

}  // namespace

void momentum(const at::Tensor& m, const at::Tensor& g, Range range, const Moments& moments) {
  float* pm = out(m, range);
  const float* pg = in(g, range);
  for_tasks(range.numel, [&](int64_t i, int64_t end) { momentum_task(pm + i, pg + i, end - i, moments); });
}

void frozen_adamw(const at::Tensor& next, const at::Tensor& x, const at::Tensor& m, const at::Tensor& v, Range range,
                  bool masked, float reach, const AdamwStep& step) {
  float *to = out(next, range), *pm = out(m, range);
  const float *px = in(x, range), *pv = in(v, range);
  for_tasks(range.numel,
            [&](int64_t i, int64_t end) { frozen_task(to + i, px + i, pm + i, pv + i, end - i, masked, reach, step); });
}

void adamw(const at::Tensor& next, const at::Tensor& x, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v,
           Range range, const AdamwStep& step) {
  float *to = out(next, range), *pm = out(m, range), *pv = out(v, range);
  const float *px = in(x, range), *pg = in(g, range);
  for_tasks(range.numel, [&](int64_t i, int64_t end) { task(to + i, px + i, pg + i, pm + i, pv + i, end - i, step); });
}

}  // namespace thinwire::kernels
