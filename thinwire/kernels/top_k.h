// The k numbers of largest magnitude, with error feedback.
//
// With c = value + error: the k largest |c| are sent as (index, c), in the order of their indices; of equal magnitudes
// the earlier ones go first. error = c where it was not sent, 0 where it was.
#pragma once

#include <cstdint>

namespace thinwire::kernels {

// 0 <= k <= n. `scratch` holds n floats and must not overlap the others; error may be nullptr.
// Returns -1, or the first position with a c that is not finite; nothing is then changed.
int64_t top_k_encode(const float* value, float* error, int64_t n, int64_t k, float* scratch, uint32_t* indices,
                     float* values);

// The bits of the k-th largest magnitude (1 <= k <= n) of finite numbers. Two passes of counting, nothing is moved.
uint32_t kth_magnitude(const float* c, int64_t n, int64_t k);

}  // namespace thinwire::kernels
