#include "thinwire/kernels/quantise.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

static_assert(kTask % kQuantBlock == 0);
constexpr int32_t kInfinity = 0x7f800000;

template <int bits>
constexpr float top() {
  return static_cast<float>((1 << (bits - 1)) - 1);
}

// Nearest whole number, halves to even, for |x| < 2^22: adding 1.5 * 2^23 pushes the fraction out.
THINWIRE_INLINE float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

// The float with the largest magnitude, as bits: magnitudes are ordered like their bits, and NaN is above infinity.
THINWIRE_INLINE int32_t largest(const float* c) {
  int32_t most = 0;
  for (int64_t i = 0; i < kQuantBlock; ++i) {
    const int32_t magnitude = std::bit_cast<int32_t>(c[i]) & 0x7fffffff;
    most = magnitude > most ? magnitude : most;
  }
  return most;
}

template <int bits>
THINWIRE_INLINE void pack(const int8_t* q, int64_t length, uint8_t* packed) {
  constexpr int each = 8 / bits, mask = (1 << bits) - 1;
  const int64_t bytes = (length + each - 1) / each;
  for (int64_t k = 0; k < bytes; ++k) {
    unsigned byte = 0;
    for (int j = 0; j < each; ++j) byte |= static_cast<unsigned>(q[each * k + j] & mask) << (8 - bits * (j + 1));
    packed[k] = static_cast<uint8_t>(byte);
  }
}

template <int bits>
THINWIRE_INLINE bool encode_block(const float* value, float* error, int64_t length, uint8_t* packed, float* scale) {
  alignas(64) float c[kQuantBlock];
  alignas(64) int8_t q[kQuantBlock];
  for (int64_t i = 0; i < length; ++i) c[i] = error ? value[i] + error[i] : value[i];
  for (int64_t i = length; i < kQuantBlock; ++i) c[i] = 0;
  const int32_t most = largest(c);
  if (most >= kInfinity) return false;
  const float s = std::bit_cast<float>(most) / top<bits>();
  *scale = s;
  const float divisor = s > 0 ? s : std::numeric_limits<float>::infinity();  // c / inf is 0
  for (int64_t i = 0; i < kQuantBlock; ++i) {
    const float whole = nearest(c[i] / divisor);
    const float bounded = whole > top<bits>() ? top<bits>() : whole < -top<bits>() ? -top<bits>() : whole;
    q[i] = static_cast<int8_t>(static_cast<int32_t>(bounded));
    c[i] -= bounded * s;
  }
  pack<bits>(q, length, packed);
  if (error) std::memcpy(error, c, static_cast<size_t>(length) * sizeof(float));
  return true;
}

template <int bits>
THINWIRE_INLINE void decode_block(float* out, int64_t length, const uint8_t* packed, float scale, bool add) {
  constexpr int each = 8 / bits;
  alignas(64) float sent[kQuantBlock];
  const int64_t bytes = (length + each - 1) / each;
  for (int64_t k = 0; k < bytes; ++k)
    for (int j = 0; j < each; ++j) {
      const auto up = static_cast<int8_t>(static_cast<uint8_t>(packed[k] << (bits * j)));  // its sign bit on top
      sent[each * k + j] = static_cast<float>(up >> (8 - bits)) * scale;
    }
  if (add)
    for (int64_t i = 0; i < length; ++i) out[i] += sent[i];
  else
    std::memcpy(out, sent, static_cast<size_t>(length) * sizeof(float));
}

THINWIRE_CLONES int64_t encode_task(const float* value, float* error, int64_t n, int bits, uint8_t* packed,
                                    float* scales) {
  for (int64_t at = 0, b = 0; at < n; at += kQuantBlock, ++b) {
    const int64_t length = std::min(kQuantBlock, n - at);
    float* own = error ? error + at : nullptr;
    uint8_t* to = packed + at * bits / 8;
    const bool fine = bits == 8   ? encode_block<8>(value + at, own, length, to, scales + b)
                      : bits == 4 ? encode_block<4>(value + at, own, length, to, scales + b)
                                  : encode_block<2>(value + at, own, length, to, scales + b);
    if (!fine) return at;
  }
  return -1;
}

THINWIRE_CLONES void decode_task(float* out, int64_t n, int bits, const uint8_t* packed, const float* scales,
                                 bool add) {
  for (int64_t at = 0, b = 0; at < n; at += kQuantBlock, ++b) {
    const int64_t length = std::min(kQuantBlock, n - at);
    const uint8_t* from = packed + at * bits / 8;
    if (bits == 8)
      decode_block<8>(out + at, length, from, scales[b], add);
    else if (bits == 4)
      decode_block<4>(out + at, length, from, scales[b], add);
    else
      decode_block<2>(out + at, length, from, scales[b], add);
  }
}

}  // namespace

int64_t quantise(const float* value, float* error, int64_t n, int bits, uint8_t* packed, float* scales) {
  return first_of_tasks(n, [&](int64_t begin, int64_t end) {
    return encode_task(value + begin, error ? error + begin : nullptr, end - begin, bits, packed + begin * bits / 8,
                       scales + begin / kQuantBlock);
  });
}

void dequantise(float* out, int64_t n, int bits, const uint8_t* packed, const float* scales, bool add) {
  for_tasks(n, [&](int64_t begin, int64_t end) {
    decode_task(out + begin, end - begin, bits, packed + begin * bits / 8, scales + begin / kQuantBlock, add);
  });
}

}  // namespace thinwire::kernels
