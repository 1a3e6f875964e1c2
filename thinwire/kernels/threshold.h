// The numbers that reach a threshold: marked in a bitmap, picked out of a vector, and spread into one again.
//
// A threshold is the bits of a magnitude, `least`: v reaches it if the bits of |v| are at least these. Bits of
// magnitudes are ordered as magnitudes are, so 1 is "not zero", 0 is "any number", and kNotFinite what its name says.
// A bitmap has one bit a number, eight to a byte, the first on top.
#pragma once

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

inline constexpr uint32_t kNotFinite = 0x7f800000;  // infinities and NaN reach it, no other number does

// How many of the numbers reach it; and where the first of them is, -1 if none does.
int64_t count_reaching(const at::Tensor& v, uint32_t least);
int64_t first_reaching(const at::Tensor& v, uint32_t least);
// Marks them in bits, which has a bit for each; those behind the last number's byte are left alone.
void mark_reaching(const at::Tensor& v, uint32_t least, const at::Tensor& bits);

// Whether a bit behind the n-th is set.
bool marks_behind(const at::Tensor& bits, int64_t n);
// Below, none must be.
int64_t count_marked(const at::Tensor& bits, int64_t n);
// values = the marked numbers of v, in their order: count_marked of them.
void pick_marked(const at::Tensor& v, const at::Tensor& bits, const at::Tensor& values);
// x = `values`, of which there are count_marked, one after another at the marked places; 0 elsewhere.
void spread_marked(const at::Tensor& values, const at::Tensor& bits, const at::Tensor& x);

}  // namespace thinwire::kernels
