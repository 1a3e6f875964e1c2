// One bit per number, with error feedback, in one pass over memory.
//
// Elements come in blocks (range.h); block b has valid[b] valid elements, from its beginning (int32; undefined: all).
// With c = x + error:
//
//   scale = mean |c| over the block's valid elements, summed in fp64, 0 where there are none
//   bit   = c >= 0                        zero and -0.0 are +; eight to a byte, most significant first
//   error = c - (bit ? scale : -scale)    what the receiver will not see, for the next time
//
// The others are sent as +, decode to 0, and keep their error.
#pragma once

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

// Of a body, which holds the scales, then the bits.
inline int64_t one_bit_bytes(int64_t n) { return 4 * blocks(n) + (n + 7) / 8; }

// error may be undefined: nothing is added, nothing kept.
// Returns -1, or the beginning of the first block with a c that is not finite; errors before it are then already new.
int64_t one_bit_encode(const at::Tensor& x, const at::Tensor& error, const at::Tensor& body,
                       const at::Tensor& valid = {});

// x = (or, with add, +=) what was sent. False, and nothing is written, if a scale is negative or not finite.
bool one_bit_decode(const at::Tensor& body, const at::Tensor& x, const at::Tensor& valid, bool add);

}  // namespace thinwire::kernels
