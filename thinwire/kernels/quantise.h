// Whole numbers of 8, 4 or 2 bits with one scale a block (range.h), with error feedback, in one pass over memory.
//
//   c = x + error;   scale = max |c| / top;   q = c / scale, rounded to the nearest (halves to even);
//   error = c - q scale
//
// top is 127, 7 or 1. Where the scale is 0 (also because max |c| / top is too small for a float) q is 0. Numbers are
// packed as two's complement, the first in the highest bits of its byte.
#pragma once

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

// Of a body, which holds the scales, then the packed numbers.
inline int64_t quantised_bytes(int64_t n, int bits) { return 4 * blocks(n) + (n * bits + 7) / 8; }

// error may be undefined.
// Returns -1, or the beginning of the first block with a c that is not finite; errors before it are then already new.
int64_t quantise(const at::Tensor& x, const at::Tensor& error, int bits, const at::Tensor& body);

// x = (or, with add, +=) what was sent. False, and nothing is written, if a scale is negative or not finite.
bool dequantise(const at::Tensor& body, int bits, const at::Tensor& x, bool add);

}  // namespace thinwire::kernels
