#include "thinwire/kernels/top_k.h"

#include <bit>
#include <vector>

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

}  // namespace

uint32_t kth_magnitude(const float* c, int64_t n, int64_t k) {
  std::vector<int64_t> high(1 << 15), low(1 << 16);
  for (int64_t i = 0; i < n; ++i) ++high[magnitude(c[i]) >> 16];
  const uint32_t top = bin_of(high, k);
  for (int64_t i = 0; i < n; ++i)
    if (magnitude(c[i]) >> 16 == top) ++low[magnitude(c[i]) & 0xffff];
  return top << 16 | bin_of(low, k);
}

int64_t top_k_encode(const float* value, float* error, int64_t n, int64_t k, float* scratch, uint32_t* indices,
                     float* values) {
  for (int64_t i = 0; i < n; ++i) {
    scratch[i] = error ? value[i] + error[i] : value[i];
    if (magnitude(scratch[i]) >= kInfinity) return i;
  }
  if (k > 0) {
    const uint32_t least = kth_magnitude(scratch, n, k);
    int64_t above = 0;
    for (int64_t i = 0; i < n; ++i) above += magnitude(scratch[i]) > least;
    int64_t equal = k - above, sent = 0;  // so many of those that just reach it
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t size = magnitude(scratch[i]);
      if (size < least || (size == least && equal-- <= 0)) continue;
      indices[sent] = static_cast<uint32_t>(i);
      values[sent++] = scratch[i];
      scratch[i] = 0;
    }
  }
  if (error)
    for (int64_t i = 0; i < n; ++i) error[i] = scratch[i];
  return -1;
}

}  // namespace thinwire::kernels
