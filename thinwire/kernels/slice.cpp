#include "thinwire/kernels/slice.h"

#include <ATen/Parallel.h>

#include <cstring>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/reduce.h"

namespace thinwire::kernels {
namespace {

// f(part) for every part, on the calling rank's threads.
template <class F>
void for_parts(Parts parts, F&& f) {
  if (parts.empty()) return;
  const int64_t grain = std::max<int64_t>(1, kTask / parts[0].numel);
  at::parallel_for(0, std::ssize(parts), grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) f(parts[i]);
  });
}

THINWIRE_CLONES void subtract(const float* __restrict x, const float* __restrict z, float* __restrict y,
                              float* __restrict message, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = x[i];
    message[i] = x[i] - z[i];
  }
}

THINWIRE_CLONES void add(const float* __restrict from, float* __restrict to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

THINWIRE_CLONES void merge_delta(float* __restrict x, const float* __restrict answer, const float* __restrict y,
                                 int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] += answer[i] - y[i];
}

THINWIRE_CLONES void merge_ema(float* __restrict x, const float* __restrict answer, const float* __restrict y,
                               float* __restrict e, int64_t n, bool fresh, const SliceStep& s) {
  const float mu = fresh ? 0 : s.mu, one_minus_mu = fresh ? 1 : s.one_minus_mu;
  for (int64_t i = 0; i < n; ++i) {
    e[i] = mu * e[i] + one_minus_mu * (x[i] - y[i]);
    x[i] = answer[i] + e[i];
  }
}

THINWIRE_CLONES void merge_anchor(float* __restrict x, const float* __restrict answer, const float* __restrict y,
                                  float* __restrict z, int64_t n, float alpha) {
  for (int64_t i = 0; i < n; ++i) {
    z[i] += alpha * answer[i];
    x[i] += z[i] - y[i];
  }
}

THINWIRE_CLONES void merge_momentum(float* __restrict x, const float* __restrict answer, const float* __restrict y,
                                    float* __restrict z, float* __restrict m, int64_t n, float alpha, float beta) {
  for (int64_t i = 0; i < n; ++i) {
    m[i] = beta * m[i] + answer[i];
    z[i] += alpha * m[i];
    x[i] += z[i] - y[i];
  }
}

THINWIRE_CLONES void difference(const float* __restrict after, float* __restrict before_then_jump, int64_t n) {
  for (int64_t i = 0; i < n; ++i) before_then_jump[i] = after[i] - before_then_jump[i];
}

void copy(const float* from, float* to, int64_t n) { std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); }

}  // namespace

void slice_gather(Parts parts, const float* flat, float* packed) {
  for_parts(parts, [&](const Part& p) { copy(flat + p.at, packed + p.packed, p.numel); });
}

void slice_scatter(Parts parts, const float* packed, float* flat) {
  for_parts(parts, [&](const Part& p) { copy(packed + p.packed, flat + p.at, p.numel); });
}

void slice_take(Parts parts, const float* x, const float* z, float* y, float* message) {
  for_parts(parts, [&](const Part& p) {
    if (z) return subtract(x + p.at, z + p.at, y + p.packed, message + p.packed, p.numel);
    copy(x + p.at, y + p.packed, p.numel);
    copy(x + p.at, message + p.packed, p.numel);
  });
}

void slice_merge(Parts parts, const SliceBuffers& b, const SliceStep& s) {
  for_parts(parts, [&](const Part& p) {
    float* x = b.x + p.at;
    const float *answer = b.answer + p.packed, *y = b.y + p.packed;
    if (b.jump) copy(x, b.jump + p.packed, p.numel);
    switch (s.merge) {
      case Merge::overwrite:
        copy(answer, x, p.numel);
        break;
      case Merge::delta:
        merge_delta(x, answer, y, p.numel);
        break;
      case Merge::ema:
        merge_ema(x, answer, y, b.e + p.at, p.numel, p.fresh, s);
        break;
      case Merge::anchor:
        if (b.m)
          merge_momentum(x, answer, y, b.z + p.at, b.m + p.at, p.numel, s.alpha, s.beta);
        else
          merge_anchor(x, answer, y, b.z + p.at, p.numel, s.alpha);
    }
    if (b.jump) difference(x, b.jump + p.packed, p.numel);
  });
}

void slice_carry(Parts from, const float* jump, Parts to, float* y) {
  auto it = to.begin();
  for (const Part& p : from) {
    while (it != to.end() && it->at < p.at) ++it;
    if (it != to.end() && it->at == p.at) add(jump + p.packed, y + it->packed, p.numel);
  }
}

}  // namespace thinwire::kernels
