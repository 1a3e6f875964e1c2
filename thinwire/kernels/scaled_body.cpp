#include "thinwire/kernels/scaled_body.h"

#include <c10/util/Exception.h>

#include <cmath>

#include "thinwire/kernels/memory.h"

namespace thinwire::kernels {

ScaledBody scaled_body(const at::Tensor& body, int64_t n, int64_t packed_bytes) {
  const int64_t scales = 4 * blocks(n);
  auto* bytes = out<uint8_t>(body);
  TORCH_CHECK(body.numel() == scales + packed_bytes && reinterpret_cast<uintptr_t>(bytes) % 4 == 0, "[kernels] wanted ",
              scales + packed_bytes, " aligned bytes for ", n, " numbers, got ", body.numel());
  return {reinterpret_cast<float*>(bytes), bytes + scales};
}

bool plausible(const float* scales, int64_t n) {
  bool fine = true;
  for (int64_t b = 0; b < blocks(n); ++b) fine &= scales[b] >= 0 && std::isfinite(scales[b]);
  return fine;
}

const int32_t* counts(const at::Tensor& valid, int64_t n) {
  return valid.defined() ? in<int32_t>(valid, {0, blocks(n)}) : nullptr;
}

}  // namespace thinwire::kernels
