#include "thinwire/pipeline/threshold.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "thinwire/base/errors.h"
#include "thinwire/base/random.h"

namespace thinwire::pipeline {
namespace {

at::Tensor numbers(int64_t n, uint64_t seed = 1) {
  return at::empty({n}, at::kFloat).normal_(0, 1, generator(seed, "threshold"));
}

// K = 10 of 40: `large` numbers of size 100, which a threshold of 31 lets through, the others of size 1.
at::Tensor forty(int64_t large) {
  at::Tensor x = at::empty({40}, at::kFloat).fill_(1);
  x.narrow(0, 0, large).fill_(-100);
  return x;
}

at::Tensor decoded(const Threshold::Encoded& encoded, const at::Tensor& x) {
  return decode(encoded.head, encoded.body, x.sizes(), x.scalar_type()).x;
}

std::string error_of(const Threshold::Encoded& encoded, const at::Tensor& x) {
  try {
    decoded(encoded, x);
  } catch (const c10::Error& error) {
    return one_line(error);
  }
  return "no error";
}

TEST(Threshold, SendsTheLargestAsTheyAre) {
  const at::Tensor x = numbers(1000).view({10, 100});
  Threshold threshold(0.1, 50);
  const auto encoded = threshold.encode(x);
  EXPECT_EQ(encoded.mask.count, 100);
  EXPECT_TRUE(decoded(encoded, x).equal(x * x.abs().ge(threshold.value())));
}

TEST(Threshold, StaysWhileTheCountIsBetweenHalfAndTwice) {
  for (int64_t large : {5, 12, 20}) {
    Threshold threshold(0.25, 50);
    threshold.encode(at::linspace(1, 40, 40));
    ASSERT_EQ(threshold.value(), 31);
    EXPECT_EQ(threshold.encode(forty(large)).mask.count, large);
    EXPECT_EQ(threshold.value(), 31) << large << " of 10";
  }
}

TEST(Threshold, IsRenewedAtOnceWhereTheCountLeavesThat) {
  for (int64_t large : {4, 21}) {
    Threshold threshold(0.25, 50);
    threshold.encode(at::linspace(1, 40, 40));
    const auto encoded = threshold.encode(forty(large));
    EXPECT_EQ(threshold.value(), large < 10 ? 1 : 100) << large << " of 10: the tenth largest of this very message";
    EXPECT_EQ(encoded.mask.count, large < 10 ? 40 : 21) << "all that reach it";
  }
}

TEST(Threshold, IsRenewedInEverySoManyMessages) {
  Threshold threshold(0.25, 3);
  const std::vector<float> tops = {40, 44, 45, 48, 47, 49};
  for (size_t k = 0; k < tops.size(); ++k) {
    threshold.encode(at::linspace(1, tops[k], 40));
    const at::Tensor since = at::linspace(1, tops[k / 3 * 3], 40);
    EXPECT_EQ(threshold.value(), since[30].item<float>()) << "message " << k;
  }
  EXPECT_EQ(threshold.messages(), 6);
}

TEST(Threshold, SendsNoZeros) {
  at::Tensor x = at::zeros({40});
  Threshold threshold(0.25, 50);
  EXPECT_EQ(threshold.encode(x).mask.count, 0);
  EXPECT_TRUE(decoded(threshold.encode(x), x).equal(x));
  x[7] = 1e-40;
  EXPECT_EQ(threshold.encode(x).mask.count, 1);
}

TEST(Threshold, OfOneSendsEverythingBitForBit) {
  Threshold threshold(1, 50);
  for (uint64_t seed : {1, 2}) {
    at::Tensor x = numbers(77, seed) * (seed == 1 ? 1.0 : 1e-6);
    x[3] = 0.0, x[4] = -0.0;
    const auto encoded = threshold.encode(x);
    EXPECT_EQ(encoded.mask.count, 77);
    EXPECT_TRUE(decoded(encoded, x).view(at::kInt).equal(x.view(at::kInt)));
  }
}

TEST(Threshold, KeepsTheModelsType) {
  const at::Tensor x = numbers(1000).to(at::kBFloat16);
  Threshold threshold(0.1, 50);
  const auto encoded = threshold.encode(x);
  EXPECT_EQ(encoded.body.numel(), mask_bytes(1000) + 2 * encoded.mask.count);
  EXPECT_TRUE(decoded(encoded, x).equal(x * x.abs().ge(threshold.value())));
}

TEST(Threshold, GoesOnFromItsState) {
  Threshold whole(0.25, 3), before(0.25, 3), after(0.25, 3);
  for (uint64_t k = 0; k < 2; ++k) whole.encode(numbers(40, k)), before.encode(numbers(40, k));
  State state;
  before.put(state, "down.");
  after.get(state, "down.");
  for (uint64_t k = 2; k < 6; ++k) {
    EXPECT_TRUE(after.encode(numbers(40, k)).body.equal(whole.encode(numbers(40, k)).body)) << k;
    EXPECT_EQ(after.value(), whole.value());
  }
}

TEST(Threshold, OfAnotherKindIsAnError) {
  EXPECT_THROW(Threshold(0, 50), c10::Error);
  EXPECT_THROW(Threshold(1.1, 50), c10::Error);
  EXPECT_THROW(Threshold(0.5, 0), c10::Error);
}

std::vector<float> list(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.const_data_ptr<float>() + x.numel()};
}

TEST(Mask, PicksAndSpreadsAnotherTensor) {
  const auto mask = Threshold(0.5, 50).encode(at::linspace(-4, 3, 8)).mask;  // the fourth largest are -2 and 2
  const at::Tensor values = pick(at::linspace(1, 8, 8).view({2, 4}), mask), back = spread(values, mask, {2, 4});
  EXPECT_EQ(list(values), (std::vector<float>{1, 2, 3, 7, 8}));
  EXPECT_EQ(list(back), (std::vector<float>{1, 2, 3, 0, 0, 0, 7, 8}));
  EXPECT_EQ(back.dim(), 2);
}

TEST(Mask, OfAnotherMessageIsAnError) {
  const auto mask = Threshold(0.5, 50).encode(numbers(40)).mask;
  EXPECT_THROW(pick(numbers(100), mask), c10::Error);
  EXPECT_THROW(spread(numbers(20), mask, {100}), c10::Error);
  EXPECT_THROW(spread(numbers(19), mask, {40}), c10::Error);
}

TEST(ThresholdMessages, ThatAreDamagedAreErrors) {
  const at::Tensor x = numbers(1000);
  const auto error_with = [&](bool head, int64_t byte, int flip) {
    auto encoded = Threshold(0.1, 50).encode(x);
    const at::Tensor message = head ? encoded.head : encoded.body;
    message[byte] = message[byte].item<int>() ^ flip;
    return error_of(encoded, x);
  };
  const auto expect = [](const std::string& error, const char* part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  for (int64_t byte : {0, 1, 2}) expect(error_with(true, byte, 1), "these bytes are not a head");
  expect(error_with(true, 3, 6), "wanted numbers of 4 bytes, got some of 2");
  expect(error_with(true, 4, 1), "101 of 1000 numbers are 532 bytes, got 528");
  expect(error_with(true, 5, 4), "1124 of 1000 numbers cannot be sent");
  expect(error_with(true, 7, 0x80), "numbers cannot be sent");
  expect(error_with(false, 60, 0x10), "the head says 100 numbers, the mask");
  for (int64_t byte : {125, 127}) expect(error_with(false, byte, 1), "marks some behind the last");
  auto encoded = Threshold(0.1, 50).encode(x);
  encoded.body = encoded.body.narrow(0, 0, 527);
  expect(error_of(encoded, x), "bytes, got 527");
  encoded.head = encoded.head.narrow(0, 0, 7);
  expect(error_of(encoded, x), "a head has 8 bytes, got 7");
}

TEST(ThresholdMessages, OfAnyBytesAreReadOrAnError) {
  const at::Tensor x = numbers(300);
  const auto good = Threshold(0.3, 50).encode(x);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    auto encoded = good;
    encoded.body = good.body.clone();
    auto* byte = encoded.body.mutable_data_ptr<uint8_t>();
    for (uint64_t i = 0; i < static_cast<uint64_t>(encoded.body.numel()); ++i)
      if (hash64({seed, i, 1}) % 50 == 0) byte[i] = static_cast<uint8_t>(hash64({seed, i}));
    error_of(encoded, x);
  }
}

}  // namespace
}  // namespace thinwire::pipeline
