#include "thinwire/kernels/one_bit.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/memory.h"
#include "thinwire/kernels/scaled_body.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "bytes of a word are taken to be in this order");
static_assert(kTask % kBlock == 0);

// Mean |c| of c[0 .. count), in sixteen interleaved fp64 lanes: a fixed order that vector units can follow.
THINWIRE_INLINE float mean_magnitude(const float* c, int64_t count) {
  double sum[16] = {};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (int j = 0; j < 16; ++j) sum[j] += static_cast<double>(std::fabs(c[i + j]));
  for (int j = 0; i < count; ++i, ++j) sum[j] += static_cast<double>(std::fabs(c[i]));
  for (int width = 8; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) sum[j] += sum[j + width];
  return count > 0 ? static_cast<float>(sum[0] / static_cast<double>(count)) : 0.0f;
}

// c has room for a whole block, zero behind what counts.
THINWIRE_INLINE void pack(const float* c, int64_t length, uint8_t* bits) {
  uint8_t sign[kBlock];
  for (int64_t i = 0; i < kBlock; ++i) sign[i] = c[i] >= 0 ? 1 : 0;
  const int64_t bytes = (length + 7) / 8;
  for (int64_t k = 0; k < bytes; ++k) {
    uint64_t eight;
    std::memcpy(&eight, sign + 8 * k, 8);
    bits[k] = static_cast<uint8_t>((eight * 0x8040201008040201ull) >> 56);  // byte j of eight becomes bit 7 - j
  }
}

template <bool feedback>
THINWIRE_INLINE bool encode_block(const float* value, float* error, int64_t length, int64_t count, uint8_t* bits,
                                  float* scale) {
  alignas(64) float c[kBlock];
  for (int64_t i = 0; i < count; ++i) c[i] = (feedback ? value[i] + error[i] : value[i]) + 0.0f;  // no -0.0
  for (int64_t i = count; i < kBlock; ++i) c[i] = 0;
  const float s = mean_magnitude(c, count);
  if (!(s <= std::numeric_limits<float>::max())) return false;
  *scale = s;
  pack(c, length, bits);
  if (feedback)
    for (int64_t i = 0; i < count; ++i) error[i] = c[i] - std::copysign(s, c[i]);
  return true;
}

THINWIRE_CLONES int64_t encode_task(const float* value, float* error, int64_t n, const int32_t* valid, uint8_t* bits,
                                    float* scales) {
  for (int64_t at = 0, b = 0; at < n; at += kBlock, ++b) {
    const int64_t length = std::min(kBlock, n - at), count = valid ? std::min<int64_t>(valid[b], length) : length;
    const bool fine = error ? encode_block<true>(value + at, error + at, length, count, bits + at / 8, scales + b)
                            : encode_block<false>(value + at, nullptr, length, count, bits + at / 8, scales + b);
    if (!fine) return at;
  }
  return -1;
}

// What a byte's bits do to the sign of a scale: eight words a byte.
struct Signs {
  alignas(32) uint32_t of[256][8];
  constexpr Signs() : of() {
    for (unsigned byte = 0; byte < 256; ++byte)
      for (unsigned j = 0; j < 8; ++j) of[byte][j] = (byte >> (7 - j)) & 1 ? 0 : 0x80000000u;
  }
};
constexpr Signs kSigns;

THINWIRE_INLINE void unpack(float* out, int64_t bytes, const uint8_t* bits, float scale) {
  const uint32_t plus = std::bit_cast<uint32_t>(scale);
  for (int64_t k = 0; k < bytes; ++k) {
    const uint32_t* sign = kSigns.of[bits[k]];
    float* to = out + 8 * k;
    for (int j = 0; j < 8; ++j) to[j] = std::bit_cast<float>(plus ^ sign[j]);
  }
}

// Without `add` straight to where it belongs; with it, and at the end, by way of a part that stays in the cache.
template <bool add>
THINWIRE_INLINE void decode_block(float* out, int64_t count, const uint8_t* bits, float scale) {
  constexpr int64_t kPart = 64;
  alignas(64) float sent[kPart];
  int64_t at = add ? 0 : count / 8 * 8;
  if (!add) unpack(out, count / 8, bits, scale);
  for (; at < count; at += kPart) {
    const int64_t size = std::min(kPart, count - at);
    unpack(sent, (size + 7) / 8, bits + at / 8, scale);
    for (int64_t i = 0; i < size; ++i) out[at + i] = add ? out[at + i] + sent[i] : sent[i];
  }
}

THINWIRE_CLONES void decode_task(float* out, int64_t n, const int32_t* valid, const uint8_t* bits, const float* scales,
                                 bool add) {
  for (int64_t at = 0, b = 0; at < n; at += kBlock, ++b) {
    const int64_t length = std::min(kBlock, n - at), count = valid ? std::min<int64_t>(valid[b], length) : length;
    if (add) {
      decode_block<true>(out + at, count, bits + at / 8, scales[b]);
    } else {
      decode_block<false>(out + at, count, bits + at / 8, scales[b]);
      for (int64_t i = count; i < length; ++i) out[at + i] = 0;
    }
  }
}

}  // namespace

int64_t one_bit_encode(const at::Tensor& x, const at::Tensor& error, const at::Tensor& body, const at::Tensor& valid) {
  const int64_t n = x.numel();
  const float* value = in(x);
  float* lost = out_if(error, whole(x));
  const int32_t* count = counts(valid, n);
  const auto [scales, bits] = scaled_body(body, n, (n + 7) / 8);
  return first_of_tasks(n, [&, scales = scales, bits = bits](int64_t i, int64_t end) {
    const int64_t block = i / kBlock;
    return encode_task(value + i, lost ? lost + i : nullptr, end - i, count ? count + block : nullptr, bits + i / 8,
                       scales + block);
  });
}

bool one_bit_decode(const at::Tensor& body, const at::Tensor& x, const at::Tensor& valid, bool add) {
  const int64_t n = x.numel();
  float* to = out(x);
  const int32_t* count = counts(valid, n);
  const auto [scales, bits] = scaled_body(body, n, (n + 7) / 8);
  if (!plausible(scales, n)) return false;
  for_tasks(n, [&, scales = scales, bits = bits](int64_t i, int64_t end) {
    const int64_t block = i / kBlock;
    decode_task(to + i, end - i, count ? count + block : nullptr, bits + i / 8, scales + block, add);
  });
  return true;
}

}  // namespace thinwire::kernels
