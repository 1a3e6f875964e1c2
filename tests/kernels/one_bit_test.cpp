#include "thinwire/kernels/one_bit.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

#include "tests/kernels/numbers.h"

namespace thinwire::kernels {
namespace {

struct Sent {
  std::vector<uint8_t> body;
  std::span<float> scales;
  std::span<uint8_t> bits;
  explicit Sent(int64_t n)
      : body(one_bit_bytes(n)),
        scales(reinterpret_cast<float*>(body.data()), (n + 1023) / 1024),
        bits(std::span(body).subspan(scales.size_bytes())) {}
};

// The definition, one number at a time. The order of the sum is part of it: lane i % 16, then lanes folded in halves.
void plain_encode(const float* value, float* error, int64_t n, const int32_t* filled, Sent& sent) {
  for (int64_t b = 0; b < static_cast<int64_t>(sent.scales.size()); ++b) {
    const int64_t at = 1024 * b, end = std::min(n, at + 1024), last = filled ? at + filled[b] : end;
    double lanes[16] = {};
    for (int64_t i = at; i < last; ++i) lanes[(i - at) % 16] += std::fabs(error ? value[i] + error[i] : value[i]);
    for (int width = 8; width > 0; width /= 2)
      for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
    const float scale = last > at ? static_cast<float>(lanes[0] / static_cast<double>(last - at)) : 0;
    sent.scales[b] = scale;
    for (int64_t i = at; i < (end + 7) / 8 * 8; ++i) {
      const float c = i >= last ? 0 : error ? value[i] + error[i] : value[i];
      if (c >= 0) sent.bits[i / 8] |= 1 << (7 - i % 8);
      if (i < last && error) error[i] = c - (c >= 0 ? scale : -scale);
    }
  }
}

void plain_decode(float* out, int64_t n, const int32_t* filled, const Sent& sent, bool add) {
  for (int64_t i = 0; i < n; ++i) {
    const bool counts = !filled || i % 1024 < filled[i / 1024];
    const float scale = sent.scales[i / 1024], value = (sent.bits[i / 8] >> (7 - i % 8)) & 1 ? scale : -scale;
    if (counts)
      out[i] = add ? out[i] + value : value;
    else if (!add)
      out[i] = 0;
  }
}

std::vector<int32_t> some_filled(int64_t n) {
  std::vector<int32_t> filled;
  for (int64_t at = 0; at < n; at += 1024)
    filled.push_back(
        static_cast<int32_t>(hash64({9, static_cast<uint64_t>(at)}) % (std::min<int64_t>(1024, n - at) + 1)));
  return filled;
}

class OneBitKernel : public testing::TestWithParam<bool> {  // whether with counts of what is filled
 protected:
  void TearDown() override { at::set_num_threads(threads_); }

  void compare(const at::Tensor& value, bool feedback) {
    const int64_t n = value.numel();
    const auto counts = some_filled(n);
    const int32_t* filled = GetParam() && n > 0 ? counts.data() : nullptr;
    const at::Tensor valid = filled ? on(counts) : at::Tensor();
    at::Tensor error = numbers(n, "error"), wanted_error = error.clone();
    Sent sent(n), wanted(n);
    EXPECT_EQ(one_bit_encode(value, feedback ? error : at::Tensor(), on(sent.body), valid), -1);
    plain_encode(value.const_data_ptr<float>(), feedback ? wanted_error.mutable_data_ptr<float>() : nullptr, n, filled,
                 wanted);
    EXPECT_EQ(sent.body, wanted.body) << n;
    EXPECT_TRUE(same_bits(error, wanted_error)) << n;
    for (bool add : {false, true}) {
      at::Tensor out = numbers(n, "out"), wanted_out = out.clone();
      EXPECT_TRUE(one_bit_decode(on(sent.body), out, valid, add));
      plain_decode(wanted_out.mutable_data_ptr<float>(), n, filled, wanted, add);
      EXPECT_TRUE(same_bits(out, wanted_out)) << n << (add ? " added" : "");
    }
  }

 private:
  int threads_ = at::get_num_threads();
};

TEST_P(OneBitKernel, EqualsItsPlainDefinitionToTheBitWithOneThreadAndTwo) {
  for (int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (int64_t n : kSizes) compare(numbers(n, "value"), true), compare(numbers(n, "value"), false);
  }
}

TEST_P(OneBitKernel, TakesZerosOfBothSignsDenormalsAndTheLargestNumbers) {
  for (int64_t n : kSizes) compare(awkward(n), false);
  compare(at::zeros({5000}), true);
}

INSTANTIATE_TEST_SUITE_P(WholeAndPartlyFilled, OneBitKernel, testing::Bool());

TEST(OneBitEncode, CountsZeroAndMinusZeroAsPlusAndPutsTheFirstNumberOnTop) {
  Sent sent(9);
  one_bit_encode(on(std::vector<float>{-0.0f, 0.0f, -1, 1, -1, -1, -1, -1, 1}), {}, on(sent.body));
  EXPECT_EQ(sent.bits[0], 0b11010000);
  EXPECT_EQ(sent.bits[1] & 0x80, 0x80);
  EXPECT_EQ(sent.scales[0], 7.0f / 9);
}

TEST(OneBitEncode, SaysWhichBlockHoldsANumberThatIsNotFinite) {
  for (float wrong : {INFINITY, -INFINITY, NAN}) {
    for (int64_t where : {0, 1023, 1024, 70'000}) {
      at::Tensor value = at::zeros({100'000}), error = at::zeros_like(value);
      value[where] = wrong;
      Sent sent(value.numel());
      EXPECT_EQ(one_bit_encode(value, error, on(sent.body)), where / 1024 * 1024);
    }
  }
}

TEST(OneBitEncode, WhatArrivedAndTheErrorAreTogetherAllThatWasSent) {
  const int64_t n = 3000;
  const at::Tensor value = numbers(n, "value");
  at::Tensor error = at::zeros_like(value), arrived = at::zeros_like(value);
  Sent sent(n);
  for (int t = 0; t < 500; ++t) {
    one_bit_encode(value, error, on(sent.body));
    one_bit_decode(on(sent.body), arrived, {}, /*add=*/true);
  }
  EXPECT_LT(arrived.add(error).sub(value, 500).abs().max().item<double>(), 1e-2) << "of up to 2000";
}

}  // namespace
}  // namespace thinwire::kernels
