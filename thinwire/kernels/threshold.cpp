#include "thinwire/kernels/threshold.h"

#include <c10/util/Exception.h>

#include <bit>
#include <cstring>

#include "thinwire/kernels/memory.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

static_assert(kTask % 8 == 0, "a task begins with a byte of the bitmap");

THINWIRE_INLINE bool reaches(float v, uint32_t least) { return (std::bit_cast<uint32_t>(v) & 0x7fffffffu) >= least; }

THINWIRE_CLONES int64_t count_task(const float* v, int64_t n, uint32_t least) {
  int32_t count = 0;  // of one task, which it can hold
  for (int64_t i = 0; i < n; ++i) count += reaches(v[i], least) ? 1 : 0;
  return count;
}

THINWIRE_CLONES void mark_task(const float* v, int64_t n, uint32_t least, uint8_t* bits) {
  constexpr int64_t kPart = 512;
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t size = std::min(kPart, n - at);
    uint8_t mark[kPart] = {};
    for (int64_t i = 0; i < size; ++i) mark[i] = reaches(v[at + i], least) ? 1 : 0;
    for (int64_t k = 0; k < (size + 7) / 8; ++k) {
      uint64_t eight;
      std::memcpy(&eight, mark + 8 * k, 8);
      bits[at / 8 + k] = static_cast<uint8_t>((eight * 0x8040201008040201ull) >> 56);  // byte j becomes bit 7 - j
    }
  }
}

int64_t count_bits(const uint8_t* bits, int64_t bytes) {
  int64_t count = 0, k = 0;
  for (; k + 8 <= bytes; k += 8) {
    uint64_t eight;
    std::memcpy(&eight, bits + k, 8);
    count += std::popcount(eight);
  }
  for (; k < bytes; ++k) count += std::popcount(bits[k]);
  return count;
}

// f(position) for every marked one of a byte.
template <class F>
THINWIRE_INLINE void for_bits(uint8_t byte, F&& f) {
  for (; byte != 0; byte = static_cast<uint8_t>(byte & ~(0x80u >> std::countl_zero(byte)))) f(std::countl_zero(byte));
}

// f(begin, end, rank) for every task of [0, n): `rank` numbers are marked before its first.
template <class F>
void for_ranked_tasks(int64_t n, const uint8_t* bits, F&& f) {
  std::vector<int64_t> ranks((n + kTask - 1) / kTask);
  int64_t marked = 0;
  for (int64_t t = 0; t < std::ssize(ranks); ++t) {
    ranks[t] = marked;
    marked += count_bits(bits + t * kTask / 8, (std::min(kTask, n - t * kTask) + 7) / 8);
  }
  for_tasks(n, [&](int64_t begin, int64_t end) { f(begin, end, ranks[begin / kTask]); });
}

const uint8_t* bitmap(const at::Tensor& bits, int64_t n) { return in<uint8_t>(bits, {0, (n + 7) / 8}); }

}  // namespace

int64_t count_reaching(const at::Tensor& v, uint32_t least) {
  const float* p = in(v);
  std::atomic<int64_t> count = 0;
  for_tasks(v.numel(), [&](int64_t begin, int64_t end) { count += count_task(p + begin, end - begin, least); });
  return count;
}

int64_t first_reaching(const at::Tensor& v, uint32_t least) {
  if (count_reaching(v, least) == 0) return -1;
  const float* p = in(v);
  return std::find_if(p, p + v.numel(), [&](float x) { return reaches(x, least); }) - p;
}

void mark_reaching(const at::Tensor& v, uint32_t least, const at::Tensor& bits) {
  const float* p = in(v);
  auto* to = out<uint8_t>(bits, {0, (v.numel() + 7) / 8});
  for_tasks(v.numel(), [&](int64_t begin, int64_t end) { mark_task(p + begin, end - begin, least, to + begin / 8); });
}

bool marks_behind(const at::Tensor& bits, int64_t n) {
  const auto* byte = in<uint8_t>(bits);
  bool found = n % 8 != 0 && (byte[n / 8] & (0xff >> n % 8)) != 0;
  for (int64_t k = (n + 7) / 8; k < bits.numel(); ++k) found |= byte[k] != 0;
  return found;
}

int64_t count_marked(const at::Tensor& bits, int64_t n) { return count_bits(bitmap(bits, n), (n + 7) / 8); }

void pick_marked(const at::Tensor& v, const at::Tensor& bits, const at::Tensor& values) {
  const int64_t n = v.numel();
  const float* from = in(v);
  const uint8_t* mark = bitmap(bits, n);
  TORCH_CHECK(values.numel() == count_marked(bits, n), "[kernels] ", count_marked(bits, n),
              " numbers are marked, got room for ", values.numel());
  float* to = out(values);
  for_ranked_tasks(n, mark, [&](int64_t begin, int64_t end, int64_t rank) {
    for (int64_t i = begin; i < end; i += 8) for_bits(mark[i / 8], [&](int j) { to[rank++] = from[i + j]; });
  });
}

void spread_marked(const at::Tensor& values, const at::Tensor& bits, const at::Tensor& x) {
  const int64_t n = x.numel();
  const float* from = in(values);
  const uint8_t* mark = bitmap(bits, n);
  TORCH_CHECK(values.numel() == count_marked(bits, n), "[kernels] ", count_marked(bits, n), " numbers are marked, got ",
              values.numel());
  float* to = out(x);
  for_ranked_tasks(n, mark, [&](int64_t begin, int64_t end, int64_t rank) {
    std::fill(to + begin, to + end, 0.0f);
    for (int64_t i = begin; i < end; i += 8) for_bits(mark[i / 8], [&](int j) { to[i + j] = from[rank++]; });
  });
}

}  // namespace thinwire::kernels
