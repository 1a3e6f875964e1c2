#include "thinwire/kernels/sgd.h"

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

THINWIRE_CLONES void with_momentum(float* next, const float* x, const float* __restrict g, float* __restrict m,
                                   int64_t n, const SgdStep s) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    m[i] = s.momentum * m[i] + (g[i] + s.weight_decay * x[i]);
    next[i] = x[i] - s.lr * m[i];
  }
}

THINWIRE_CLONES void plain(float* next, const float* x, const float* __restrict g, int64_t n, const SgdStep s) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) next[i] = x[i] - s.lr * (g[i] + s.weight_decay * x[i]);
}

}  // namespace

void sgd(float* next, const float* x, const float* g, float* m, int64_t n, const SgdStep& step) {
  for_tasks(n, [&](int64_t begin, int64_t end) {
    if (m)
      with_momentum(next + begin, x + begin, g + begin, m + begin, end - begin, step);
    else
      plain(next + begin, x + begin, g + begin, end - begin, step);
  });
}

}  // namespace thinwire::kernels
