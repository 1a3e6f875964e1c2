// Whole numbers of 8, 4 or 2 bits with one scale a block of 1024, with error feedback, in one pass over memory.
//
//   c = value + error;   scale = max |c| / top;   q = c / scale, rounded to the nearest (halves to even);
//   error = c - q scale
//
// top is 127, 7 or 1. Where the scale is 0 (also because max |c| / top is too small for a float) q is 0. Numbers are
// packed as two's complement, the first in the highest bits of its byte.
#pragma once

#include <cstdint>

namespace thinwire::kernels {

inline constexpr int64_t kQuantBlock = 1024;

inline int64_t quantised_bytes(int64_t n, int bits) { return (n * bits + 7) / 8; }

// Writes quantised_bytes(n, bits) bytes and one scale a block. error may be nullptr.
// Returns -1, or the beginning of the first block with a c that is not finite; errors before it are then already new.
int64_t quantise(const float* value, float* error, int64_t n, int bits, uint8_t* packed, float* scales);

// out = (or, with add, +=) what was sent.
void dequantise(float* out, int64_t n, int bits, const uint8_t* packed, const float* scales, bool add);

}  // namespace thinwire::kernels
