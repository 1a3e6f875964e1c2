#include "thinwire/kernels/one_scale.h"

#include <c10/util/Exception.h>

#include <cstring>

#include "thinwire/kernels/memory.h"

namespace thinwire::kernels {
namespace {

void check_sizes(int64_t n, int64_t count, const at::Tensor& messages) {
  TORCH_CHECK(n % 8 == 0 && messages.numel() == count * one_scale_bytes(n), "[kernels] ", count, " messages of ", n,
              " numbers, a multiple of 8, have ", count * one_scale_bytes(n), " bytes, got ", messages.numel());
}

float decoded(const uint8_t* message, int64_t i) {
  float scale;
  std::memcpy(&scale, message, 4);
  return (message[4 + i / 8] >> (7 - i % 8)) & 1 ? scale : -scale;
}

}  // namespace

void one_scale_encode(const at::Tensor& c, float scale, int64_t count, const at::Tensor& messages) {
  const int64_t n = c.numel() / count;
  check_sizes(n, count, messages);
  float* p = out(c);
  auto* message = out<uint8_t>(messages);
  for (int64_t k = 0; k < count; ++k, p += n, message += one_scale_bytes(n)) {
    std::memcpy(message, &scale, 4);
    std::memset(message + 4, 0, n / 8);
    for (int64_t i = 0; i < n; ++i) {
      const bool plus = p[i] >= 0;
      if (plus) message[4 + i / 8] |= 1 << (7 - i % 8);
      p[i] -= plus ? scale : -scale;
    }
  }
}

void one_scale_decode(const at::Tensor& messages, int64_t count, const at::Tensor& x) {
  const int64_t n = x.numel() / count;
  check_sizes(n, count, messages);
  float* to = out(x);
  const auto* message = in<uint8_t>(messages);
  for (int64_t k = 0; k < count; ++k, to += n, message += one_scale_bytes(n))
    for (int64_t i = 0; i < n; ++i) to[i] = decoded(message, i);
}

void one_scale_mean(const at::Tensor& messages, int64_t count, const at::Tensor& x) {
  const int64_t n = x.numel(), bytes = one_scale_bytes(n);
  check_sizes(n, count, messages);
  float* mean = out(x);
  const auto* message = in<uint8_t>(messages);
  for (int64_t i = 0; i < n; ++i) {
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += decoded(message + k * bytes, i);
    mean[i] = sum / static_cast<float>(count);
  }
}

}  // namespace thinwire::kernels
