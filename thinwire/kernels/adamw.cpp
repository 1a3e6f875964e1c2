#include "thinwire/kernels/adamw.h"

#include <cmath>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/reach.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

THINWIRE_CLONES void task(float* next, const float* x, const float* __restrict g, float* __restrict m,
                          float* __restrict v, int64_t n, const AdamwStep s) {
#pragma GCC ivdep  // next is x or apart from it, element by element
  for (int64_t i = 0; i < n; ++i) {
    m[i] = s.beta1 * m[i] + s.one_minus_beta1 * g[i];
    v[i] = s.beta2 * v[i] + s.one_minus_beta2 * (g[i] * g[i]);
    next[i] = s.decay * x[i] - s.rate * m[i] / (std::sqrt(v[i]) * s.root + s.eps);
  }
}

THINWIRE_CLONES void momentum_task(float* __restrict m, const float* __restrict g, int64_t n, float beta1,
                                   float one_minus_beta1) {
  for (int64_t i = 0; i < n; ++i) m[i] = beta1 * m[i] + one_minus_beta1 * g[i];
}

THINWIRE_CLONES void frozen_task(float* next, const float* x, float* __restrict m, const float* __restrict v, int64_t n,
                                 bool masked, float reach, const AdamwStep s) {
#pragma GCC ivdep  // as above
  for (int64_t i = 0; i < n; ++i) {
    const float root = std::sqrt(v[i]);
    m[i] = masked && v[i] == 0 ? 0.0f : within_reach(m[i], reach, root + s.eps);
    next[i] = s.decay * x[i] - s.rate * m[i] / (root * s.root + s.eps);
  }
}

}  // namespace

void momentum(float* m, const float* g, int64_t n, float beta1, float one_minus_beta1) {
  for_tasks(
      n, [&](int64_t begin, int64_t end) { momentum_task(m + begin, g + begin, end - begin, beta1, one_minus_beta1); });
}

void frozen_adamw(float* next, const float* x, float* m, const float* v, int64_t n, bool masked, float reach,
                  const AdamwStep& step) {
  for_tasks(n, [&](int64_t begin, int64_t end) {
    frozen_task(next + begin, x + begin, m + begin, v + begin, end - begin, masked, reach, step);
  });
}

void adamw(float* next, const float* x, const float* g, float* m, float* v, int64_t n, const AdamwStep& step) {
  for_tasks(n, [&](int64_t begin, int64_t end) {
    task(next + begin, x + begin, g + begin, m + begin, v + begin, end - begin, step);
  });
}

}  // namespace thinwire::kernels
