// A part of a flat vector, and the blocks that flat vectors are made of. And the contract of all kernels, which their
// headers only add to:
//
// - Tensors are contiguous, fp32 unless a header says otherwise, on a device that has kernels, and as long as the range
//   needs; c10::Error otherwise, before anything is written. Any length will do, 0 too.
// - Vectors do not overlap, unless a header says that one may be another (`next` may be x).
// - A kernel has no state and may be called from any thread; it uses the torch threads of the calling one.
// - The same bits for any number of threads, on every CPU generation, with GCC and Clang. Sums are in fp64, in an order
//   that depends on positions alone.
// - Zeros stay zeros, so padding needs no mask.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace thinwire::kernels {

// Units of a model start on a multiple of it, and codecs have one scale for each.
inline constexpr int64_t kBlock = 1024;
constexpr int64_t blocks(int64_t n) { return (n + kBlock - 1) / kBlock; }

// Elements [at, at + numel).
struct Range {
  int64_t at = 0, numel = 0;
};
inline Range whole(const at::Tensor& x) { return {0, x.numel()}; }

}  // namespace thinwire::kernels
