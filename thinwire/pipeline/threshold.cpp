#include "thinwire/pipeline/threshold.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "thinwire/kernels/host_span.h"
#include "thinwire/kernels/threshold.h"
#include "thinwire/kernels/top_k.h"

namespace thinwire::pipeline {
namespace {

constexpr uint8_t kId = 6;  // those before are compress/codecs.cpp's

int64_t width_of(at::ScalarType dtype) { return static_cast<int64_t>(c10::elementSize(dtype)); }

// Where the numbers of a body lie.
at::Tensor values_in(const at::Tensor& body, int64_t n, at::ScalarType dtype) {
  return body.narrow(0, mask_bytes(n), body.numel() - mask_bytes(n)).view(dtype);
}

void pick_into(at::Tensor values, const at::Tensor& x, const Mask& mask) {
  const at::Tensor wide = x.contiguous().to(at::kFloat);
  const bool direct = values.scalar_type() == at::kFloat;
  const at::Tensor picked = direct ? values : at::empty(values.sizes(), wide.options());
  kernels::pick_marked(wide, mask.bits, picked);
  if (!direct) values.copy_(picked);  // exact: they were of this type
}

int64_t count_of(const at::Tensor& head, int64_t n, at::ScalarType dtype) {
  TORCH_CHECK(head.numel() == kHeadBytes, "[pipeline.threshold] a head has ", kHeadBytes, " bytes, got ", head.numel());
  const auto byte = kernels::host_span<const uint8_t>(head);
  TORCH_CHECK(byte[0] == 'T' && byte[1] == 'W' && byte[2] == kId, "[pipeline.threshold] these bytes are not a head");
  TORCH_CHECK(byte[3] == width_of(dtype), "[pipeline.threshold] wanted numbers of ", width_of(dtype),
              " bytes, got some of ", int{byte[3]});
  uint32_t count;
  std::memcpy(&count, byte.data() + 4, 4);
  TORCH_CHECK(count <= n, "[pipeline.threshold] ", count, " of ", n, " numbers cannot be sent");
  return count;
}

}  // namespace

Mask mask_of(at::Tensor bits, int64_t n) {
  TORCH_CHECK(bits.scalar_type() == at::kByte && bits.is_contiguous() && bits.numel() == mask_bytes(n),
              "[pipeline.threshold] a mask of ", n, " numbers has ", mask_bytes(n), " bytes, got ", bits.numel());
  TORCH_CHECK(!kernels::marks_behind(bits, n), "[pipeline.threshold] a mask of ", n,
              " numbers marks some behind the last");
  const int64_t count = kernels::count_marked(bits, n);
  return {std::move(bits), count};
}

at::Tensor pick(const at::Tensor& x, const Mask& mask) {
  TORCH_CHECK(mask.bits.numel() == mask_bytes(x.numel()), "[pipeline.threshold] the mask is of another message");
  at::Tensor values = at::empty({mask.count}, x.options());
  pick_into(values, x, mask);
  return values;
}

at::Tensor spread(const at::Tensor& values, const Mask& mask, at::IntArrayRef shape) {
  at::Tensor x = at::empty(shape, values.options().dtype(at::kFloat));
  TORCH_CHECK(mask.bits.numel() == mask_bytes(x.numel()) && values.numel() == mask.count,
              "[pipeline.threshold] the mask is of another message");
  const at::Tensor wide = values.to(at::kFloat);
  kernels::spread_marked(wide, mask.bits, x);
  return x.to(values.scalar_type());
}

Threshold::Threshold(double keep, int64_t renew) : keep_(keep), renew_(renew) {
  TORCH_CHECK(keep > 0 && keep <= 1, "[pipeline.threshold] keep must be above 0 and up to 1, got ", keep);
  TORCH_CHECK(renew >= 1, "[pipeline.threshold] renew must be at least 1, got ", renew);
}

float Threshold::value() const { return std::bit_cast<float>(least_); }

Threshold::Encoded Threshold::encode(const at::Tensor& x) {
  const at::Tensor wide = x.contiguous().to(at::kFloat);
  const int64_t n = wide.numel();
  TORCH_CHECK(n <= UINT32_MAX, "[pipeline.threshold] a message holds up to 2^32 - 1 numbers, got ", n);
  const auto K = std::min<int64_t>(n, static_cast<int64_t>(std::ceil(keep_ * static_cast<double>(n))));

  const auto leaves_band = [&] {
    const int64_t count = kernels::count_reaching(wide, least_);
    return 2 * count < K || count > 2 * K;
  };
  if (K == n)
    least_ = 0;
  else if (messages_ % renew_ == 0 || leaves_band())
    least_ = std::max(1u, kernels::kth_magnitude(wide, K));  // 1: no zeros
  ++messages_;

  const auto bytes = x.options().dtype(at::kByte);
  Encoded encoded{at::empty({kHeadBytes}, bytes), {}, {at::zeros({mask_bytes(n)}, bytes)}};
  kernels::mark_reaching(wide, least_, encoded.mask.bits);
  const int64_t sent = encoded.mask.count = kernels::count_marked(encoded.mask.bits, n);

  const auto count = static_cast<uint32_t>(sent);
  const uint8_t head[4] = {'T', 'W', kId, static_cast<uint8_t>(width_of(x.scalar_type()))};
  const auto to = kernels::host_span<uint8_t>(encoded.head);
  std::memcpy(to.data(), head, 4);
  std::memcpy(to.data() + 4, &count, 4);
  encoded.body = at::empty({mask_bytes(n) + sent * width_of(x.scalar_type())}, bytes);
  encoded.body.narrow(0, 0, mask_bytes(n)).copy_(encoded.mask.bits);
  pick_into(values_in(encoded.body, n, x.scalar_type()), wide, encoded.mask);
  return encoded;
}

void Threshold::put(State& state, const std::string& prefix) const {
  thinwire::put(state, prefix + "threshold", static_cast<double>(value()), Scope::per_replica);
  thinwire::put(state, prefix + "messages", messages_, Scope::per_replica);
}

void Threshold::get(const State& state, const std::string& prefix) {
  const double value = get_double(state, prefix + "threshold", 0, std::numeric_limits<float>::max());
  least_ = std::bit_cast<uint32_t>(std::fabs(static_cast<float>(value)));
  messages_ = get_int(state, prefix + "messages", 0);
}

int64_t body_bytes(const at::Tensor& head, int64_t n, at::ScalarType dtype) {
  return mask_bytes(n) + count_of(head, n, dtype) * width_of(dtype);
}

Decoded decode(const at::Tensor& head, const at::Tensor& body, at::IntArrayRef shape, at::ScalarType dtype) {
  const int64_t n = c10::multiply_integers(shape), count = count_of(head, n, dtype), bytes = body_bytes(head, n, dtype);
  TORCH_CHECK(body.numel() == bytes, "[pipeline.threshold] ", count, " of ", n, " numbers are ", bytes, " bytes, got ",
              body.numel());
  Mask mask = mask_of(body.narrow(0, 0, mask_bytes(n)).clone(), n);
  TORCH_CHECK(mask.count == count, "[pipeline.threshold] the head says ", count, " numbers, the mask ", mask.count);
  at::Tensor x = spread(values_in(body, n, dtype), mask, shape);
  return {std::move(x), std::move(mask)};
}

}  // namespace thinwire::pipeline
