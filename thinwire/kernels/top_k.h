// The k numbers of largest magnitude, with error feedback.
//
// With c = x + error: the k largest |c| are sent as (index, c), in the order of their indices; of equal magnitudes the
// earlier ones go first. error = c where it was not sent, 0 where it was. A body holds k indices (32 bits), then k
// numbers.
#pragma once

#include "thinwire/kernels/range.h"

namespace thinwire::kernels {

// body has 8 k bytes, 0 <= k <= n; error may be undefined.
// Returns -1, or the first position with a c that is not finite; nothing is then changed.
int64_t top_k_encode(const at::Tensor& x, const at::Tensor& error, const at::Tensor& body);

// x = (or, with add, +=) what was sent, 0 elsewhere. False, and nothing is written, if the indices are out of order or
// beyond the end.
bool top_k_decode(const at::Tensor& body, const at::Tensor& x, bool add);

// The bits of the k-th largest magnitude (1 <= k <= n) of finite numbers. Two passes of counting, nothing is moved.
uint32_t kth_magnitude(const at::Tensor& c, int64_t k);

}  // namespace thinwire::kernels
