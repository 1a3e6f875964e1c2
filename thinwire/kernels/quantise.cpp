#include "thinwire/kernels/quantise.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/memory.h"
#include "thinwire/kernels/scaled_body.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

static_assert(kTask % kBlock == 0);
constexpr int32_t kInfinity = 0x7f800000;

template <int bits>
constexpr float top() {
  return static_cast<float>((1 << (bits - 1)) - 1);
}

// Nearest whole number, halves to even, for |x| < 2^22: adding 1.5 * 2^23 pushes the fraction out.
THINWIRE_INLINE float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

// Magnitudes are ordered like their bits, and NaN is above infinity.
THINWIRE_INLINE int32_t magnitude(float x) { return std::bit_cast<int32_t>(x) & 0x7fffffff; }

// Packing and unpacking are loops over words of 8 / bits bytes, one number a byte, so that they are the same few shifts
// for every word and vector units can do many at once.
template <int bits>
using Word = std::conditional_t<bits == 8, uint8_t, std::conditional_t<bits == 4, uint16_t, uint32_t>>;

template <int bits>
THINWIRE_INLINE uint8_t packed_word(Word<bits> w) {
  if constexpr (bits == 8) return w;
  if constexpr (bits == 4) return static_cast<uint8_t>((w << 4 & 0xf0) | (w >> 8 & 0x0f));
  if constexpr (bits == 2)
    return static_cast<uint8_t>((w << 6 & 0xc0) | (w >> 4 & 0x30) | (w >> 14 & 0x0c) | (w >> 24 & 0x03));
}

// The other way round, each number in the highest bits of its byte.
template <int bits>
THINWIRE_INLINE Word<bits> unpacked_word(uint8_t byte) {
  const uint32_t b = byte;
  if constexpr (bits == 8) return byte;
  if constexpr (bits == 4) return static_cast<uint16_t>((b & 0xf0) | (b & 0x0f) << 12);
  if constexpr (bits == 2) return (b & 0xc0) | (b & 0x30) << 10 | (b & 0x0c) << 20 | (b & 0x03) << 30;
}

// q and left = c - q s, where q is c / s, rounded and bounded.
template <int bits>
THINWIRE_INLINE void divide(const float* __restrict c, float s, int8_t* __restrict q, float* __restrict left) {
  const float divisor = s > 0 ? s : std::numeric_limits<float>::infinity();  // c / inf is 0
  for (int64_t i = 0; i < kBlock; ++i) {
    const float whole = nearest(c[i] / divisor);
    const float bounded = whole > top<bits>() ? top<bits>() : whole < -top<bits>() ? -top<bits>() : whole;
    q[i] = static_cast<int8_t>(static_cast<int32_t>(bounded));
    left[i] = c[i] - bounded * s;
  }
}

// The same by multiplying, which is faster. The product is within 3 parts in 2^24 of the rounded quotient, so the whole
// number is the same unless the product is that near to the middle between two: false, and q and left are worthless.
// Nor is a bound needed, as the scale is not tiny.
template <int bits>
THINWIRE_INLINE bool multiply(const float* __restrict c, float s, int8_t* __restrict q, float* __restrict left) {
  const float inverse = 1 / s;
  int32_t farthest = 0;
  for (int64_t i = 0; i < kBlock; ++i) {
    const float product = c[i] * inverse, whole = nearest(product);
    const int32_t off = magnitude(product - whole);
    farthest = off > farthest ? off : farthest;
    q[i] = static_cast<int8_t>(static_cast<int32_t>(whole));
    left[i] = c[i] - whole * s;
  }
  return std::bit_cast<float>(farthest) < 0.5f - top<bits>() * 0x1p-22f;
}

// With two bits it is a comparison: 2 c is exact, and where it exceeds s the rounded quotient exceeds a half.
THINWIRE_INLINE void compare(const float* __restrict c, float s, int8_t* __restrict q, float* __restrict left) {
  for (int64_t i = 0; i < kBlock; ++i) {
    const float whole = (c[i] + c[i] > s ? 1.0f : 0.0f) - (c[i] + c[i] < -s ? 1.0f : 0.0f);
    q[i] = static_cast<int8_t>(static_cast<int32_t>(whole));
    left[i] = c[i] - whole * s;
  }
}

// c = x + error, zeros behind them; returns the largest magnitude.
THINWIRE_INLINE int32_t add_up(const float* __restrict value, const float* __restrict error, int64_t length,
                               float* __restrict c) {
  int32_t most = 0;
  for (int64_t i = 0; i < length; ++i) {
    c[i] = error ? value[i] + error[i] : value[i];
    most = magnitude(c[i]) > most ? magnitude(c[i]) : most;
  }
  for (int64_t i = length; i < kBlock; ++i) c[i] = 0;
  return most;
}

template <int bits>
THINWIRE_INLINE void encode_block(const float* c, int32_t most, float* left, int64_t length, uint8_t* packed,
                                  float* scale) {
  constexpr int each = 8 / bits;
  alignas(64) int8_t q[kBlock];
  const float s = *scale = std::bit_cast<float>(most) / top<bits>();
  if constexpr (bits == 2)
    compare(c, s, q, left);
  else if (s < 0x1p-100f || !multiply<bits>(c, s, q, left))
    divide<bits>(c, s, q, left);
  alignas(64) Word<bits> words[kBlock / each];
  alignas(64) uint8_t bytes[kBlock / each];
  std::memcpy(words, q, sizeof q);
  for (int64_t k = 0; k < kBlock / each; ++k) bytes[k] = packed_word<bits>(words[k]);
  std::memcpy(packed, bytes, static_cast<size_t>((length + each - 1) / each));
}

template <int bits>
THINWIRE_INLINE void decode_block(float* out, int64_t length, const uint8_t* packed, float scale, bool add) {
  constexpr int each = 8 / bits;
  alignas(64) Word<bits> words[kBlock / each];
  alignas(64) int8_t q[kBlock];
  for (int64_t k = 0; k < (length + each - 1) / each; ++k) words[k] = unpacked_word<bits>(packed[k]);
  std::memcpy(q, words, sizeof q);
  for (int64_t i = 0; i < length; ++i) {
    const float sent = static_cast<float>(q[i] >> (8 - bits)) * scale;
    out[i] = add ? out[i] + sent : sent;
  }
}

THINWIRE_CLONES int64_t encode_task(const float* value, float* error, int64_t n, int bits, uint8_t* packed,
                                    float* scales) {
  alignas(64) float c[kBlock];
  alignas(64) float left[kBlock];
  for (int64_t at = 0, b = 0; at < n; at += kBlock, ++b) {
    const int64_t length = std::min(kBlock, n - at);
    float* own = error ? error + at : nullptr;
    const int32_t most = add_up(value + at, own, length, c);
    if (most >= kInfinity) return at;
    uint8_t* to = packed + at * bits / 8;
    if (bits == 8)
      encode_block<8>(c, most, left, length, to, scales + b);
    else if (bits == 4)
      encode_block<4>(c, most, left, length, to, scales + b);
    else
      encode_block<2>(c, most, left, length, to, scales + b);
    if (own) std::memcpy(own, left, static_cast<size_t>(length) * sizeof(float));
  }
  return -1;
}

THINWIRE_CLONES void decode_task(float* out, int64_t n, int bits, const uint8_t* packed, const float* scales,
                                 bool add) {
  for (int64_t at = 0, b = 0; at < n; at += kBlock, ++b) {
    const int64_t length = std::min(kBlock, n - at);
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

int64_t quantise(const at::Tensor& x, const at::Tensor& error, int bits, const at::Tensor& body) {
  const int64_t n = x.numel();
  const float* value = in(x);
  float* lost = out_if(error, whole(x));
  const auto [scales, packed] = scaled_body(body, n, (n * bits + 7) / 8);
  return first_of_tasks(n, [&, scales = scales, packed = packed](int64_t i, int64_t end) {
    return encode_task(value + i, lost ? lost + i : nullptr, end - i, bits, packed + i * bits / 8, scales + i / kBlock);
  });
}

bool dequantise(const at::Tensor& body, int bits, const at::Tensor& x, bool add) {
  const int64_t n = x.numel();
  float* to = out(x);
  const auto [scales, packed] = scaled_body(body, n, (n * bits + 7) / 8);
  if (!plausible(scales, n)) return false;
  for_tasks(n, [&, scales = scales, packed = packed](int64_t i, int64_t end) {
    decode_task(to + i, end - i, bits, packed + i * bits / 8, scales + i / kBlock, add);
  });
  return true;
}

}  // namespace thinwire::kernels
