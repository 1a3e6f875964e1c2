#include "thinwire/kernels/zero_one.h"

#include <cmath>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/reach.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

THINWIRE_CLONES void local_task(float* next, const float* x, const float* __restrict g, float* __restrict m,
                                const float* __restrict v, float* __restrict moved, const float* __restrict synced,
                                int64_t n, const LocalStep s) {
#pragma GCC ivdep  // next is x or apart from it, element by element
  for (int64_t i = 0; i < n; ++i) {
    const float root = std::sqrt(v[i]) + s.eps, now = s.beta1 * m[i] + s.one_minus_beta1 * g[i];
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

void local_step(const ZeroOneBuffers& b, int64_t n, const LocalStep& step) {
  for_tasks(n, [&](int64_t i, int64_t end) {
    local_task(b.next + i, b.x + i, b.g + i, b.m + i, b.v + i, b.moved + i, b.synced + i, end - i, step);
  });
}

void scale_by_root(float* moved, const float* v, int64_t n, float eps) {
  for_tasks(n, [&](int64_t i, int64_t end) { scale_task(moved + i, v + i, end - i, eps); });
}

void sync_step(const ZeroOneBuffers& b, int64_t n, float lr_sum, float eps, float reach, bool masked) {
  for_tasks(n, [&](int64_t i, int64_t end) {
    sync_task(b.next + i, b.m + i, b.v + i, b.moved + i, b.synced + i, end - i, lr_sum, eps, reach, masked);
  });
}

}  // namespace thinwire::kernels
