// A part of a flat vector, and the blocks that flat vectors are made of.
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
