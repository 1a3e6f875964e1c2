#include "thinwire/kernels/slice.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/memory.h"
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

// What the parts use of a flat and of a packed vector: they are in ascending order.
Range flat_range(Parts parts) { return {0, parts.empty() ? 0 : parts.back().at + parts.back().numel}; }
Range packed_range(Parts parts) { return {0, parts.empty() ? 0 : parts.back().packed + parts.back().numel}; }

}  // namespace

void slice_gather(Parts parts, const at::Tensor& flat, const at::Tensor& packed) {
  const float* from = in(flat, flat_range(parts));
  float* to = out(packed, packed_range(parts));
  for_parts(parts, [&](const Part& p) { copy(from + p.at, to + p.packed, p.numel); });
}

void slice_scatter(Parts parts, const at::Tensor& packed, const at::Tensor& flat) {
  const float* from = in(packed, packed_range(parts));
  float* to = out(flat, flat_range(parts));
  for_parts(parts, [&](const Part& p) { copy(from + p.packed, to + p.at, p.numel); });
}

void slice_take(Parts parts, const at::Tensor& x, const at::Tensor& z, const at::Tensor& y, const at::Tensor& message) {
  const float *from = in(x, flat_range(parts)), *anchor = out_if(z, flat_range(parts));
  float *kept = out(y, packed_range(parts)), *sent = out(message, packed_range(parts));
  for_parts(parts, [&](const Part& p) {
    if (anchor) return subtract(from + p.at, anchor + p.at, kept + p.packed, sent + p.packed, p.numel);
    copy(from + p.at, kept + p.packed, p.numel);
    copy(from + p.at, sent + p.packed, p.numel);
  });
}

void slice_merge(Parts parts, const SliceBuffers& b, const SliceStep& s) {
  const Range flat = flat_range(parts), packed = packed_range(parts);
  float *weights = out(b.x, flat), *jump = out_if(b.jump, packed);
  const float *answers = in(b.answer, packed), *left = in(b.y, packed);
  float *e = out_if(b.e, flat), *z = out_if(b.z, flat), *m = out_if(b.m, flat);
  TORCH_CHECK((s.merge != Merge::ema || b.e.defined()) && (s.merge != Merge::anchor || b.z.defined()),
              "[kernels] a merge by ema wants e, one by anchor z");
  for_parts(parts, [&](const Part& p) {
    float* x = weights + p.at;
    const float *answer = answers + p.packed, *y = left + p.packed;
    if (jump) copy(x, jump + p.packed, p.numel);
    switch (s.merge) {
      case Merge::overwrite:
        copy(answer, x, p.numel);
        break;
      case Merge::delta:
        merge_delta(x, answer, y, p.numel);
        break;
      case Merge::ema:
        merge_ema(x, answer, y, e + p.at, p.numel, p.fresh, s);
        break;
      case Merge::anchor:
        if (m)
          merge_momentum(x, answer, y, z + p.at, m + p.at, p.numel, s.alpha, s.beta);
        else
          merge_anchor(x, answer, y, z + p.at, p.numel, s.alpha);
    }
    if (jump) difference(x, jump + p.packed, p.numel);
  });
}

void slice_carry(Parts from, const at::Tensor& jump, Parts to, const at::Tensor& y) {
  const float* far = in(jump, packed_range(from));
  float* left = out(y, packed_range(to));
  auto it = to.begin();
  for (const Part& p : from) {
    while (it != to.end() && it->at < p.at) ++it;
    if (it != to.end() && it->at == p.at) add(far + p.packed, left + it->packed, p.numel);
  }
}

}  // namespace thinwire::kernels
