// What one_bit.h and quantise.h write: one fp32 scale a block, then the packed numbers. For their kernels alone:
// pointers into a message, which must outlive them.
#pragma once

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

struct ScaledBody {
  float* scales;    // blocks(n) of them
  uint8_t* packed;  // behind them
};
// The two parts of a body of n numbers, which must have exactly `packed_bytes` behind its scales: c10::Error otherwise.
ScaledBody scaled_body(const at::Tensor& body, int64_t n, int64_t packed_bytes);
// Whether an encoder can have written these scales: none is negative, all are finite.
bool plausible(const float* scales, int64_t n);
// How many elements of each block are valid, checked to be within it; null where the tensor is undefined.
const int32_t* counts(const at::Tensor& valid, int64_t n);

}  // namespace thinwire::kernels
