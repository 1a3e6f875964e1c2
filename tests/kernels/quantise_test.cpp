#include "thinwire/kernels/quantise.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
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
  std::span<uint8_t> packed;
  Sent(int64_t n, int bits)
      : body(quantised_bytes(n, bits)),
        scales(reinterpret_cast<float*>(body.data()), (n + 1023) / 1024),
        packed(std::span(body).subspan(scales.size_bytes())) {}
};

// The definition, one number at a time.
void plain_encode(const float* value, float* error, int64_t n, int bits, Sent& sent) {
  const float top = static_cast<float>((1 << (bits - 1)) - 1);
  for (int64_t b = 0; b < static_cast<int64_t>(sent.scales.size()); ++b) {
    const int64_t at = 1024 * b, end = std::min(n, at + 1024);
    float most = 0;
    for (int64_t i = at; i < end; ++i) most = std::max(most, std::fabs(error ? value[i] + error[i] : value[i]));
    const float scale = sent.scales[b] = most / top;
    for (int64_t i = at; i < end; ++i) {
      const float c = error ? value[i] + error[i] : value[i];
      const float q = scale > 0 ? std::clamp(std::nearbyint(c / scale), -top, top) : 0;
      const auto code = static_cast<unsigned>(static_cast<int>(q)) & ((1u << bits) - 1);
      sent.packed[i * bits / 8] |= static_cast<uint8_t>(code << (8 - bits - i * bits % 8));
      if (error) error[i] = c - q * scale;
    }
  }
}

void plain_decode(float* out, int64_t n, int bits, const Sent& sent, bool add) {
  for (int64_t i = 0; i < n; ++i) {
    const int code = (sent.packed[i * bits / 8] >> (8 - bits - i * bits % 8)) & ((1 << bits) - 1);
    const int q = code >= 1 << (bits - 1) ? code - (1 << bits) : code;
    const float value = static_cast<float>(q) * sent.scales[i / 1024];
    out[i] = add ? out[i] + value : value;
  }
}

class QuantiseKernel : public testing::TestWithParam<int> {
 protected:
  void TearDown() override { at::set_num_threads(threads_); }

  void compare(const at::Tensor& value, bool feedback) {
    const int64_t n = value.numel();
    const int bits = GetParam();
    at::Tensor error = numbers(n, "error"), wanted_error = error.clone();
    Sent sent(n, bits), wanted(n, bits);
    EXPECT_EQ(quantise(value, feedback ? error : at::Tensor(), bits, on(sent.body)), -1);
    plain_encode(value.const_data_ptr<float>(), feedback ? wanted_error.mutable_data_ptr<float>() : nullptr, n, bits,
                 wanted);
    EXPECT_EQ(sent.body, wanted.body) << n;
    EXPECT_TRUE(same_bits(error, wanted_error)) << n;
    for (bool add : {false, true}) {
      at::Tensor out = numbers(n, "out"), wanted_out = out.clone();
      EXPECT_TRUE(dequantise(on(sent.body), bits, out, add));
      plain_decode(wanted_out.mutable_data_ptr<float>(), n, bits, wanted, add);
      EXPECT_TRUE(same_bits(out, wanted_out)) << n << (add ? " added" : "");
    }
  }

 private:
  int threads_ = at::get_num_threads();
};

TEST_P(QuantiseKernel, EqualsItsPlainDefinitionToTheBitWithOneThreadAndTwo) {
  for (int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (int64_t n : kSizes) compare(numbers(n, "value"), true), compare(numbers(n, "value"), false);
  }
}

TEST_P(QuantiseKernel, TakesZerosOfBothSignsDenormalsAndTheLargestNumbers) {
  for (int64_t n : kSizes) compare(awkward(n), false);
  compare(at::zeros({5000}), false);
  compare(at::zeros({5000}).fill_(1e-44), false);
}

// Where a product instead of a quotient would round the other way.
TEST_P(QuantiseKernel, RoundsWhatLiesBetweenTwoWholeNumbersAsADivisionDoes) {
  const int top = (1 << (GetParam() - 1)) - 1;
  const at::Tensor scales = numbers(40, "scales");
  for (int64_t k = 0; k < 40; ++k) {
    const float scale = std::exp(3 * scales[k].item<float>());
    std::vector<float> value = {static_cast<float>(top) * scale};
    for (int level = 0; level < top; ++level) {
      const float middle = (static_cast<float>(level) + 0.5f) * scale;
      for (float c : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)})
        value.insert(value.end(), {c, -c});
    }
    compare(on(value), false);
  }
}

TEST_P(QuantiseKernel, SaysWhichBlockHoldsANumberThatIsNotFinite) {
  for (float wrong : {INFINITY, -INFINITY, NAN})
    for (int64_t where : {0, 1023, 1024, 70'000}) {
      at::Tensor value = at::zeros({100'000});
      value[where] = wrong;
      Sent sent(value.numel(), GetParam());
      EXPECT_EQ(quantise(value, {}, GetParam(), on(sent.body)), where / 1024 * 1024);
    }
}

INSTANTIATE_TEST_SUITE_P(Bits, QuantiseKernel, testing::Values(8, 4, 2));

TEST(Quantise, ByHand) {
  Sent sent(5, 4);
  quantise(on(std::vector<float>{7, -3.4f, 0.5f, 1.5f, -7}), {}, 4, on(sent.body));
  const auto packed = sent.packed;
  EXPECT_EQ(sent.scales[0], 1);
  EXPECT_EQ(packed[0], 0x7d) << "7 and -3";
  EXPECT_EQ(packed[1], 0x02) << "halves go to even: 0 and 2";
  EXPECT_EQ(packed[2], 0x90) << "-7, then nothing";
}

}  // namespace
}  // namespace thinwire::kernels
