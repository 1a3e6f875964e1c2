// The numbers that reach a threshold: marked in a bitmap, picked out of a vector, and spread into one again.
//
// A threshold is the bits of a magnitude, `least`: v reaches it if the bits of |v| are at least these. Bits of
// magnitudes are ordered as magnitudes are, so 1 is "not zero", 0 is "any number", and kNotFinite what its name says.
// A bitmap has one bit a number, eight to a byte, the first on top.
#pragma once

#include <cstdint>

namespace thinwire::kernels {

inline constexpr uint32_t kNotFinite = 0x7f800000;  // infinities and NaN reach it, no other number does

// How many of the n numbers reach it.
int64_t count_reaching(const float* v, int64_t n, uint32_t least);
// Marks them: writes (n + 7) / 8 bytes; bits behind the n-th are 0.
void mark_reaching(const float* v, int64_t n, uint32_t least, uint8_t* bits);

// Below, bits behind the n-th must be 0.
int64_t count_marked(const uint8_t* bits, int64_t n);
// values = the marked numbers of v, in their order; there is room for count_marked.
void pick_marked(const float* v, int64_t n, const uint8_t* bits, float* values);
// out = `values`, of which there are count_marked, one after another at the marked places; 0 elsewhere.
void spread_marked(const float* values, int64_t n, const uint8_t* bits, float* out);

}  // namespace thinwire::kernels
