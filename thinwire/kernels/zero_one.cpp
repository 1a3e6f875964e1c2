#include "thinwire/kernels/zero_one.h"

#include <cmath>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/memory.h"
#include "thinwire/kernels/reach.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

THINWIRE_CLONES void local_task(float* next, const float* x, const float* __restrict g, float* __restrict m,
                                const float* __restrict v, float* __restrict moved, const float* __restrict synced,
                                int64_t n, const LocalStep s) {
  const Moments b = s.moments;
  THINWIRE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const float root = std::sqrt(v[i]) + b.eps, now = b.beta1 * m[i] + b.one_minus_beta1 * g[i];
    m[i] = s.masked && v[i] == 0 ? 0.0f : within_reach(now, s.reach, root);
    moved[i] -= s.lr * (m[i] / root + s.weight_decay * x[i]);
    next[i] = synced[i] + moved[i];
  }
}

THINWIRE_CLONES void scale_task(float* __restrict moved, const float* __restrict v, int64_t n, float eps) {
  for (int64_t i = 0; i < n; ++i) moved[i] *= std::sqrt(v[i]) + eps;
}

THINWIRE_CLONES void sync_task(float* __restrict next, float* __restrict m, const float* __restrict v,
                               float* __restrict moved, float* __restrict synced, int64_t n, float lr_sum, float eps,
                               float reach, bool masked) {
  for (int64_t i = 0; i < n; ++i) {
    const float root = std::sqrt(v[i]) + eps;
    const float h = masked && v[i] == 0 ? 0.0f : within_reach(moved[i], lr_sum * reach, root);
    synced[i] += h / root;
    next[i] = synced[i];
    m[i] = -h / lr_sum;
    moved[i] = 0;
  }
}

}  // namespace

void local_step(const ZeroOneBuffers& b, Range range, const LocalStep& step) {
  float *next = out(b.next, range), *m = out(b.m, range), *moved = out(b.moved, range);
  const float *x = in(b.x, range), *g = in(b.g, range), *v = in(b.v, range), *synced = in(b.synced, range);
  for_tasks(range.numel, [&](int64_t i, int64_t end) {
    local_task(next + i, x + i, g + i, m + i, v + i, moved + i, synced + i, end - i, step);
  });
}

void scale_by_root(const at::Tensor& moved, const at::Tensor& v, float eps) {
  float* pm = out(moved);
  const float* pv = in(v, whole(moved));
  for_tasks(moved.numel(), [&](int64_t i, int64_t end) { scale_task(pm + i, pv + i, end - i, eps); });
}

void sync_step(const ZeroOneBuffers& b, Range range, float lr_sum, float eps, float reach, bool masked) {
  float *next = out(b.next, range), *m = out(b.m, range), *moved = out(b.moved, range), *synced = out(b.synced, range);
  const float* v = in(b.v, range);
  for_tasks(range.numel, [&](int64_t i, int64_t end) {
    sync_task(next + i, m + i, v + i, moved + i, synced + i, end - i, lr_sum, eps, reach, masked);
  });
}

}  // namespace thinwire::kernels
