// One bit per number, with error feedback, in one pass over memory.
//
// Elements come in blocks of 1024; block b has filled[b] elements that count, from its beginning (nullptr: all). With
// c = value + error:
//
//   scale = mean |c| over the block's elements that count, summed in fp64, 0 where there are none
//   bit   = c >= 0                        zero and -0.0 count as +; eight to a byte, the first on top
//   error = c - (bit ? scale : -scale)    what the receiver will not see, for the next time
//
// Elements that do not count are sent as +, decode to 0, and keep their error.
#pragma once

#include <cstdint>

namespace thinwire::kernels {

inline constexpr int64_t kBitBlock = 1024;

// Writes (n + 7) / 8 bytes and one scale a block. error may be nullptr: nothing is added, nothing kept.
// Returns -1, or the beginning of the first block with a c that is not finite; errors before it are then already new.
int64_t one_bit_encode(const float* value, float* error, int64_t n, const int32_t* filled, uint8_t* bits,
                       float* scales);

// out = (or, with add, +=) what was sent.
void one_bit_decode(float* out, int64_t n, const int32_t* filled, const uint8_t* bits, const float* scales, bool add);

}  // namespace thinwire::kernels
