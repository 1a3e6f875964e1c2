// One bit per number with one scale for all of them: what DeepSpeed sends (thinwire/compress/rms_mean.h).
//
// A message holds the scale (fp32), then the bits, eight to a byte, the first on top: c >= 0. Messages lie one after
// another, and so do their numbers; each has a multiple of 8 of them.
#pragma once

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

inline int64_t one_scale_bytes(int64_t n) { return 4 + n / 8; }

// All messages are given this scale. c becomes what was lost: c - (bit ? scale : -scale).
void one_scale_encode(const at::Tensor& c, float scale, int64_t count, const at::Tensor& messages);
// x = what they say.
void one_scale_decode(const at::Tensor& messages, int64_t count, const at::Tensor& x);
// x = the mean of what they say, summed in their order.
void one_scale_mean(const at::Tensor& messages, int64_t count, const at::Tensor& x);

}  // namespace thinwire::kernels
