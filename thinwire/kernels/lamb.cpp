#include "thinwire/kernels/lamb.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/memory.h"
#include "thinwire/kernels/reach.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

constexpr int64_t kPart = 512;  // stays in the first-level cache

THINWIRE_CLONES LambNorms moments_task(const float* __restrict x, const float* __restrict g, float* __restrict m,
                                       float* __restrict v, int64_t n, const LambStep s) {
  const Moments b = s.moments;
  Lanes norm_x, norm_u;
  float u[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t size = std::min(kPart, n - at);
    for (int64_t j = 0; j < size; ++j) {
      const int64_t i = at + j;
      m[i] = b.beta1 * m[i] + b.one_minus_beta1 * g[i];
      v[i] = b.beta2 * v[i] + b.one_minus_beta2 * (g[i] * g[i]);
      u[j] = m[i] / (std::sqrt(v[i]) + b.eps) + s.weight_decay * x[i];
    }
    norm_x.add(x + at, size);
    norm_u.add(u, size);
  }
  return {norm_x.total(), norm_u.total()};
}

THINWIRE_CLONES void apply_task(float* next, const float* x, const float* __restrict m, const float* __restrict v,
                                int64_t n, float rate, const LambStep s) {
  const float eps = s.moments.eps, weight_decay = s.weight_decay;
  THINWIRE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) next[i] = x[i] - rate * (m[i] / (std::sqrt(v[i]) + eps) + weight_decay * x[i]);
}

THINWIRE_CLONES void momentum_task(float* __restrict m, float* __restrict last, const float* __restrict g, int64_t n,
                                   const Moments b, float scale) {
  for (int64_t i = 0; i < n; ++i) {
    last[i] = m[i];
    m[i] = (b.beta1 * m[i] + b.one_minus_beta1 * g[i]) * scale;
  }
}

THINWIRE_CLONES FrozenNorms renew_task(const float* __restrict x, float* __restrict m, const float* __restrict last,
                                       const float* __restrict v, float* __restrict fresh, int64_t n, float scale,
                                       bool masked, float reach, const LambStep s) {
  const Moments b = s.moments;
  Lanes norm_adam, norm_u;
  float adam[kPart], u[kPart], ratio[kPart] = {};
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t size = std::min(kPart, n - at);
    for (int64_t j = 0; j < size; ++j) {
      const int64_t i = at + j;
      const float root = std::sqrt(v[i]) + b.eps;
      m[i] = masked && v[i] == 0 ? 0.0f : within_reach(m[i] / scale, reach, root);
      const float ghat = (m[i] - b.beta1 * last[i]) / b.one_minus_beta1;
      fresh[i] = b.beta2 * fresh[i] + b.one_minus_beta2 * (ghat * ghat);
      const float now = root / (std::sqrt(fresh[i]) + b.eps);
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

LambNorms lamb_moments(const at::Tensor& x, const at::Tensor& g, const at::Tensor& m, const at::Tensor& v, Range range,
                       const LambStep& step) {
  const float *px = in(x, range), *pg = in(g, range);
  float *pm = out(m, range), *pv = out(v, range);
  LambNorms total;
  for (const auto& part : by_task<LambNorms>(range.numel, [&](int64_t i, int64_t end) {
         return moments_task(px + i, pg + i, pm + i, pv + i, end - i, step);
       }))
    total.x += part.x, total.u += part.u;
  return total;
}

void lamb_apply(const at::Tensor& next, const at::Tensor& x, const at::Tensor& m, const at::Tensor& v, Range range,
                float rate, const LambStep& step) {
  float* to = out(next, range);
  const float *px = in(x, range), *pm = in(m, range), *pv = in(v, range);
  for_tasks(range.numel,
            [&](int64_t i, int64_t end) { apply_task(to + i, px + i, pm + i, pv + i, end - i, rate, step); });
}

void scaled_momentum(const at::Tensor& m, const at::Tensor& last, const at::Tensor& g, Range range,
                     const Moments& moments, float scale) {
  float *pm = out(m, range), *pl = out(last, range);
  const float* pg = in(g, range);
  for_tasks(range.numel,
            [&](int64_t i, int64_t end) { momentum_task(pm + i, pl + i, pg + i, end - i, moments, scale); });
}

FrozenNorms lamb_renew(const at::Tensor& x, const at::Tensor& m, const at::Tensor& last, const at::Tensor& v,
                       const at::Tensor& fresh, Range range, float scale, bool masked, float reach,
                       const LambStep& step) {
  const float *px = in(x, range), *pl = in(last, range), *pv = in(v, range);
  float *pm = out(m, range), *pf = out(fresh, range);
  FrozenNorms total;
  for (const auto& part : by_task<FrozenNorms>(range.numel, [&](int64_t i, int64_t end) {
         return renew_task(px + i, pm + i, pl + i, pv + i, pf + i, end - i, scale, masked, reach, step);
       })) {
    total.adam += part.adam, total.u += part.u;
    total.ratio = std::max(total.ratio, part.ratio);
  }
  return total;
}

}  // namespace thinwire::kernels
