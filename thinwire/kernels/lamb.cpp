#include "thinwire/kernels/lamb.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/reach.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

constexpr int64_t kPart = 512;  // stays in the first-level cache

THINWIRE_CLONES LambNorms moments_task(const float* __restrict x, const float* __restrict g, float* __restrict m,
                                       float* __restrict v, int64_t n, const LambStep s) {
  Lanes norm_x, norm_u;
  float u[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t size = std::min(kPart, n - at);
    for (int64_t j = 0; j < size; ++j) {
      const int64_t i = at + j;
      m[i] = s.beta1 * m[i] + s.one_minus_beta1 * g[i];
      v[i] = s.beta2 * v[i] + s.one_minus_beta2 * (g[i] * g[i]);
      u[j] = m[i] / (std::sqrt(v[i]) + s.eps) + s.weight_decay * x[i];
    }
    norm_x.add(x + at, size);
    norm_u.add(u, size);
  }
  return {norm_x.total(), norm_u.total()};
}

THINWIRE_CLONES void apply_task(float* next, const float* x, const float* __restrict m, const float* __restrict v,
                                int64_t n, float rate, float eps, float weight_decay) {
#pragma GCC ivdep  // next is x or apart from it, element by element
  for (int64_t i = 0; i < n; ++i) next[i] = x[i] - rate * (m[i] / (std::sqrt(v[i]) + eps) + weight_decay * x[i]);
}

THINWIRE_CLONES void momentum_task(float* __restrict m, float* __restrict last, const float* __restrict g, int64_t n,
                                   float beta1, float one_minus_beta1, float scale) {
  for (int64_t i = 0; i < n; ++i) {
    last[i] = m[i];
    m[i] = (beta1 * m[i] + one_minus_beta1 * g[i]) * scale;
  }
}

THINWIRE_CLONES FrozenNorms renew_task(const float* __restrict x, float* __restrict m, const float* __restrict last,
                                       const float* __restrict v, float* __restrict fresh, int64_t n, float scale,
                                       bool masked, float reach, const LambStep s) {
  Lanes norm_adam, norm_u;
  float adam[kPart], u[kPart], ratio[kPart] = {};
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t size = std::min(kPart, n - at);
    for (int64_t j = 0; j < size; ++j) {
      const int64_t i = at + j;
      const float root = std::sqrt(v[i]) + s.eps;
      m[i] = masked && v[i] == 0 ? 0.0f : within_reach(m[i] / scale, reach, root);
      const float ghat = (m[i] - s.beta1 * last[i]) / s.one_minus_beta1;
      fresh[i] = s.beta2 * fresh[i] + s.one_minus_beta2 * (ghat * ghat);
      const float now = root / (std::sqrt(fresh[i]) + s.eps);
      ratio[j] = now > ratio[j] ? now : ratio[j];
      adam[j] = m[i] / root;
      u[j] = adam[j] + s.weight_decay * x[i];
    }
    norm_adam.add(adam, size);
    norm_u.add(u, size);
  }
  return {norm_adam.total(), norm_u.total(), *std::max_element(ratio, ratio + kPart)};
}

// Results of the tasks, in their order.
template <class T, class F>
std::vector<T> by_task(int64_t n, F&& f) {
  std::vector<T> results((n + kTask - 1) / kTask);
  for_tasks(n, [&](int64_t begin, int64_t end) { results[begin / kTask] = f(begin, end); });
  return results;
}

}  // namespace

LambNorms lamb_moments(const float* x, const float* g, float* m, float* v, int64_t n, const LambStep& step) {
  LambNorms total;
  for (const auto& part : by_task<LambNorms>(n, [&](int64_t begin, int64_t end) {
         return moments_task(x + begin, g + begin, m + begin, v + begin, end - begin, step);
       }))
    total.x += part.x, total.u += part.u;
  return total;
}

void lamb_apply(float* next, const float* x, const float* m, const float* v, int64_t n, float rate, float eps,
                float weight_decay) {
  for_tasks(n, [&](int64_t begin, int64_t end) {
    apply_task(next + begin, x + begin, m + begin, v + begin, end - begin, rate, eps, weight_decay);
  });
}

void scaled_momentum(float* m, float* last, const float* g, int64_t n, float beta1, float one_minus_beta1,
                     float scale) {
  for_tasks(n, [&](int64_t begin, int64_t end) {
    momentum_task(m + begin, last + begin, g + begin, end - begin, beta1, one_minus_beta1, scale);
  });
}

FrozenNorms lamb_renew(const float* x, float* m, const float* last, const float* v, float* fresh, int64_t n,
                       float scale, bool masked, float reach, const LambStep& step) {
  FrozenNorms total;
  for (const auto& part : by_task<FrozenNorms>(n, [&](int64_t begin, int64_t end) {
         return renew_task(x + begin, m + begin, last + begin, v + begin, fresh + begin, end - begin, scale, masked,
                           reach, step);
       })) {
    total.adam += part.adam, total.u += part.u;
    total.ratio = std::max(total.ratio, part.ratio);
  }
  return total;
}

}  // namespace thinwire::kernels
