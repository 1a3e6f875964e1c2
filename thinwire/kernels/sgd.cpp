#include "thinwire/kernels/sgd.h"

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/memory.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

THINWIRE_CLONES void with_momentum(float* next, const float* x, const float* __restrict g, float* __restrict m,
                                   int64_t n, const SgdStep s) {
  THINWIRE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    m[i] = s.momentum * m[i] + (g[i] + s.weight_decay * x[i]);
    next[i] = x[i] - s.lr * m[i];
  }
}

THINWIRE_CLONES void plain(float* next, const float* x, const float* __restrict g, int64_t n, const SgdStep s) {
  THINWIRE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) next[i] = x[i] - s.lr * (g[i] + s.weight_decay * x[i]);
}

}  // namespace

void sgd(const at::Tensor& next, const at::Tensor& x, const at::Tensor& g, const at::Tensor& m, Range range,
         const SgdStep& step) {
  float *to = out(next, range), *pm = out_if(m, range);
  const float *px = in(x, range), *pg = in(g, range);
  for_tasks(range.numel, [&](int64_t i, int64_t end) {
    if (pm)
      with_momentum(to + i, px + i, pg + i, pm + i, end - i, step);
    else
      plain(to + i, px + i, pg + i, end - i, step);
  });
}

}  // namespace thinwire::kernels
