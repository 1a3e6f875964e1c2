#include "thinwire/kernels/top_k.h"

#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "thinwire/kernels/memory.h"

namespace thinwire::kernels {
namespace {

constexpr uint32_t kInfinity = 0x7f800000;

inline uint32_t magnitude(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }

// The bin, from the top, in which the k-th element lies; k becomes its rank inside that bin.
uint32_t bin_of(const std::vector<int64_t>& counts, int64_t& k) {
  auto bin = static_cast<uint32_t>(counts.size() - 1);
  for (; k > counts[bin]; --bin) k -= counts[bin];
  return bin;
}

struct Body {
  uint32_t* indices;
  float* values;
  int64_t k;
};
Body parts_of(const at::Tensor& body, int64_t n) {
  auto* bytes = out<uint8_t>(body);
  const int64_t k = body.numel() / 8;
  TORCH_CHECK(body.numel() == 8 * k && k <= n && reinterpret_cast<uintptr_t>(bytes) % 4 == 0,
              "[kernels] wanted aligned bytes for up to ", n, " numbers and their places, got ", body.numel());
  return {reinterpret_cast<uint32_t*>(bytes), reinterpret_cast<float*>(bytes + 4 * k), k};
}

uint32_t kth_magnitude(const float* c, int64_t n, int64_t k) {
  std::vector<int64_t> high(1 << 15), low(1 << 16);
  for (int64_t i = 0; i < n; ++i) ++high[magnitude(c[i]) >> 16];
  const uint32_t top = bin_of(high, k);
  for (int64_t i = 0; i < n; ++i)
    if (magnitude(c[i]) >> 16 == top) ++low[magnitude(c[i]) & 0xffff];
  return top << 16 | bin_of(low, k);
}

}  // namespace

uint32_t kth_magnitude(const at::Tensor& c, int64_t k) {
  TORCH_CHECK(k >= 1 && k <= c.numel(), "[kernels] wanted one of ", c.numel(), " magnitudes, got number ", k);
  return kth_magnitude(in(c), c.numel(), k);
}

int64_t top_k_encode(const at::Tensor& x, const at::Tensor& error, const at::Tensor& body) {
  const int64_t n = x.numel();
  const auto [indices, values, k] = parts_of(body, n);
  const float* value = in(x);
  float* lost = out_if(error, whole(x));
  const at::Tensor sum = at::empty_like(x);
  float* c = out(sum);
  for (int64_t i = 0; i < n; ++i) {
    c[i] = lost ? value[i] + lost[i] : value[i];
    if (magnitude(c[i]) >= kInfinity) return i;
  }
  if (k > 0) {
    const uint32_t least = kth_magnitude(c, n, k);
    int64_t above = 0;
    for (int64_t i = 0; i < n; ++i) above += magnitude(c[i]) > least;
    int64_t equal = k - above, sent = 0;  // so many of those that just reach it
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t size = magnitude(c[i]);
      if (size < least || (size == least && equal-- <= 0)) continue;
      indices[sent] = static_cast<uint32_t>(i);
      values[sent++] = c[i];
      c[i] = 0;
    }
  }
  if (lost) std::copy_n(c, n, lost);
  return -1;
}

bool top_k_decode(const at::Tensor& body, const at::Tensor& x, bool add) {
  const int64_t n = x.numel();
  const auto [indices, values, k] = parts_of(body, n);
  float* to = out(x);
  for (int64_t i = 0; i < k; ++i)
    if (indices[i] >= n || (i > 0 && indices[i] <= indices[i - 1])) return false;
  if (!add) std::fill_n(to, n, 0.0f);
  for (int64_t i = 0; i < k; ++i) to[indices[i]] += values[i];
  return true;
}

}  // namespace thinwire::kernels
