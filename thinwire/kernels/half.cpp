#include "thinwire/kernels/half.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "thinwire/kernels/memory.h"

namespace thinwire::kernels {

int64_t half_encode(const at::Tensor& x, const at::Tensor& error, const at::Tensor& sent) {
  constexpr int64_t kPart = 4096;  // stays in the cache
  const int64_t n = x.numel();
  const at::ScalarType type = sent.scalar_type();
  TORCH_CHECK(type == at::kHalf || type == at::kBFloat16, "[kernels] wanted fp16 or bf16, got ", type);
  TORCH_CHECK(sent.numel() == n, "[kernels] wanted room for ", n, " numbers, got ", sent.numel());
  check(sent, type, whole(sent));
  const float top = type == at::kHalf ? 65504.0f : 3.38953139e38f;
  const float* value = in(x);
  float* lost = out_if(error, whole(x));
  auto* to = static_cast<uint8_t*>(sent.mutable_data_ptr());
  alignas(64) float c[kPart];
  alignas(64) float bounded[kPart];
  for (int64_t at = 0; at < n; at += kPart) {
    const int64_t size = std::min(kPart, n - at);
    bool fine = true;
    for (int64_t i = 0; i < size; ++i) {
      c[i] = lost ? value[at + i] + lost[at + i] : value[at + i];
      fine &= std::isfinite(c[i]);
      bounded[i] = std::clamp(c[i], -top, top);
    }
    if (!fine) return at;
    at::Tensor part = at::from_blob(to + 2 * at, {size}, type), wide = at::from_blob(bounded, {size});
    part.copy_(wide);
    if (!lost) continue;
    wide.copy_(part);
    for (int64_t i = 0; i < size; ++i) lost[at + i] = c[i] - bounded[i];
  }
  return -1;
}

}  // namespace thinwire::kernels
