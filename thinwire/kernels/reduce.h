// Sums over long fp32 vectors, in fp64. The order of additions is fixed by position alone (eight interleaved sums
// within a task, then tasks in order): the result does not depend on the number of threads.
#pragma once

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

// Elements that one task works on; partial sums are added up in the order of the tasks.
inline constexpr int64_t kTask = 1 << 16;

// Sum of x[i]^2. One pass.
double sum_squares(const at::Tensor& x);
double sum_squares(const at::Tensor& x, Range range);

// Sum of |x[i]|. One pass.
double sum_magnitudes(const at::Tensor& x, Range range);

// Sum of (x[i] - y[i])^2. One pass.
double sum_squared_differences(const at::Tensor& x, const at::Tensor& y);

}  // namespace thinwire::kernels
