#include "thinwire/compress/codec.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <span>

#include "thinwire/base/errors.h"
#include "thinwire/base/random.h"
#include "thinwire/compress/error_feedback.h"

namespace thinwire::compress {
namespace {

constexpr const char* kCodecs[] = {"none", "one_bit", "int8", "int4", "int2", "bf16", "half", "topk:0.01"};

at::Tensor numbers(int64_t n, uint64_t seed = 1) {
  return at::empty({n}, at::kFloat).normal_(0, 1, generator(seed, "codec"));
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return one_line(error);
  }
  return "no error";
}

// A message in memory of its own, exactly as long as it is: a read beyond it is seen by the address sanitizer.
struct Message {
  std::unique_ptr<uint32_t[]> words;
  size_t size;
  explicit Message(size_t bytes) : words(new uint32_t[(bytes + 3) / 4]()), size(bytes) {}
  std::span<uint8_t> bytes() const { return {reinterpret_cast<uint8_t*>(words.get()), size}; }
  operator at::Tensor() const { return at::from_blob(words.get(), {static_cast<int64_t>(size)}, at::kByte); }  // NOLINT
};

class AnyCodec : public testing::TestWithParam<const char*> {
 protected:
  const CodecPtr codec_ = make_codec(GetParam());
};

TEST_P(AnyCodec, IsReadBackByItsName) { EXPECT_EQ(codec_->name(), GetParam()); }

TEST_P(AnyCodec, WhatArrivesPlusWhatIsLostIsWhatWasSent) {
  for (int64_t n : {0, 1, 5, 1024, 1025, 5000}) {
    const at::Tensor value = numbers(n), error = numbers(n, 2), c = value + error, out = at::full({n}, 99.0f);
    const Message message(codec_->bytes(n));
    ASSERT_EQ(codec_->encode(value, error, message), -1);
    codec_->decode(message, out);
    const at::Tensor apart = (out + error - c).abs() / (1 + out.abs() + c.abs());
    for (int64_t i = 0; i < n; ++i) EXPECT_LE(apart[i].item<float>(), 1e-6) << n << " " << i;
    const at::Tensor sum = at::full({n}, 2.0f);
    codec_->decode(message, sum, {}, /*add=*/true);
    EXPECT_TRUE(at::equal(sum, out + 2.0f)) << n;
  }
}

TEST_P(AnyCodec, WithoutErrorsSendsTheValues) {
  const at::Tensor value = numbers(3000);
  const Message with(codec_->bytes(3000)), without(codec_->bytes(3000));
  codec_->encode(value, at::zeros({3000}), with);
  codec_->encode(value, {}, without);
  EXPECT_TRUE(at::equal(with, without));
}

TEST_P(AnyCodec, RefusesWhatIsNotFinite) {
  for (float wrong : {INFINITY, NAN}) {
    at::Tensor value = numbers(3000);
    value[2000] = wrong;
    const int64_t at = codec_->encode(value, at::zeros({3000}), Message(codec_->bytes(3000)));
    EXPECT_GE(at, 0);
    EXPECT_LE(at, 2000);
  }
}

TEST_P(AnyCodec, RefusesMessagesThatAreNotItsOwn) {
  const int64_t n = 3000;
  const at::Tensor value = numbers(n), out = at::empty({n});
  Message good(codec_->bytes(n));
  codec_->encode(value, {}, good);
  auto error_with = [&](size_t byte, uint8_t flip) {
    Message wrong(good.size);
    std::memcpy(wrong.words.get(), good.words.get(), good.size);
    wrong.bytes()[byte] ^= flip;
    return error_of([&] { codec_->decode(wrong, out); });
  };
  EXPECT_NE(error_with(0, 1).find("these bytes are not a message"), std::string::npos);
  EXPECT_NE(error_with(2, 1).find("another codec"), std::string::npos);
  EXPECT_NE(error_with(3, 64).find("another codec"), std::string::npos);
  EXPECT_NE(error_with(4, 1).find("wanted a message of 3000 numbers, got one of 3001"), std::string::npos);
  Message cut(good.size - 4);
  EXPECT_NE(error_of([&] { codec_->decode(cut, out); }).find("bytes, got"), std::string::npos);
  EXPECT_NE(error_of([&] { codec_->decode(at::empty({0}, at::kByte), out); }).find("bytes, got 0"), std::string::npos);
  EXPECT_NE(
      error_of([&] { codec_->decode(at::empty({static_cast<int64_t>(good.size)}), out); }).find("wanted contiguous"),
      std::string::npos);
}

TEST_P(AnyCodec, SurvivesAnyBytesBehindAGoodHeader) {
  const int64_t n = 1500;
  const at::Tensor value = numbers(n), out = at::empty({n});
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Message message(codec_->bytes(n));
    codec_->encode(value, {}, message);
    for (uint64_t i = 8; i < message.size; ++i)
      if (hash64({seed, i, 1}) % 50 == 0) message.bytes()[i] = static_cast<uint8_t>(hash64({seed, i}));
    try {
      codec_->decode(message, out, {}, seed % 2 == 0);
    } catch (const c10::Error&) {  // refused is as good
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, AnyCodec, testing::ValuesIn(kCodecs));

TEST(Codec, SizesAreExact) {
  auto bytes = [](const char* name, int64_t n) { return make_codec(name)->bytes(n); };
  EXPECT_EQ(bytes("none", 1000), 8 + 4000);
  EXPECT_EQ(bytes("one_bit", 4096), 8 + 4 * 4 + 512);
  EXPECT_EQ(bytes("one_bit", 5), 8 + 4 + 4) << "rounded up to whole words";
  EXPECT_EQ(bytes("int8", 2048), 8 + 2 * 4 + 2048);
  EXPECT_EQ(bytes("int4", 2048), 8 + 2 * 4 + 1024);
  EXPECT_EQ(bytes("int2", 2048), 8 + 2 * 4 + 512);
  EXPECT_EQ(bytes("bf16", 100), 8 + 200);
  EXPECT_EQ(bytes("half", 101), 8 + 204);
  EXPECT_EQ(bytes("topk:0.01", 1000), 8 + 10 * 8);
  EXPECT_EQ(bytes("topk:0.01", 1001), 8 + 11 * 8);
  for (const char* name : kCodecs) EXPECT_EQ(bytes(name, 0), 8) << name;
}

TEST(Codec, OneBitLeavesPaddingOutOfScalesAndDecodesItToZero) {
  const auto codec = make_codec("one_bit");
  const at::Tensor value = at::zeros({2048}), out = at::full({2048}, 7.0f), valid = at::tensor({2, 1}, at::kInt);
  value[0] = 3, value[1] = -1, value[1024] = 5;
  const Message message(codec->bytes(2048));
  codec->encode(value, {}, message, valid);
  codec->decode(message, out, valid);
  at::Tensor wanted = at::zeros({2048});
  wanted[0] = 2, wanted[1] = -2, wanted[1024] = 5;
  EXPECT_TRUE(at::equal(out, wanted));
}

TEST(Codec, HalfKeepsWhatIsTooLargeForItInTheError) {
  const auto codec = make_codec("half");
  const at::Tensor error = at::zeros({1}), out = at::zeros({1});
  const Message message(codec->bytes(1));
  codec->encode(at::full({1}, 70000.0f), error, message);
  codec->decode(message, out);
  EXPECT_EQ(out.item<float>(), 65504);
  EXPECT_EQ(error.item<float>(), 70000 - 65504);
}

TEST(Codec, TopKRefusesIndicesBeyondTheEnd) {
  const auto codec = make_codec("topk:0.5");
  const at::Tensor value = numbers(4), out = at::zeros({4});
  Message message(codec->bytes(4));
  codec->encode(value, {}, message);
  message.words[3] = 4;  // the second index
  EXPECT_NE(error_of([&] { codec->decode(message, out); }).find("out of order"), std::string::npos);
}

TEST(Codec, RefusesScalesThatAreNotNumbers) {
  const auto codec = make_codec("one_bit");
  const at::Tensor value = numbers(4), out = at::zeros({4});
  for (float wrong : {-1.0f, INFINITY, NAN}) {
    Message message(codec->bytes(4));
    codec->encode(value, {}, message);
    std::memcpy(&message.words[2], &wrong, 4);
    EXPECT_NE(error_of([&] { codec->decode(message, out); }).find("a scale"), std::string::npos);
  }
}

TEST(MakeCodec, SaysWhatThereIs) {
  EXPECT_EQ(codec_help(), "how numbers are made small: none, one_bit, int8, int4, int2, bf16, half, topk:SHARE");
  EXPECT_EQ(codec_names().size(), std::size(kCodecs)) << "kCodecs above should have them all";
  EXPECT_EQ(error_of([] { make_codec("topk0.01"); }), "there is no codec \"topk0.01\"; did you mean \"topk:0.01\"?");
  EXPECT_EQ(error_of([] { make_codec("int9"); }), "there is no codec \"int9\"; did you mean \"int8\"?");
  EXPECT_EQ(error_of([] { make_codec("zip"); }).substr(0, 50), "there is no codec \"zip\" (there are: none, one_bit,");
  for (const char* wrong : {"topk:", "topk:0", "topk:2", "topk:0.1x", "topk:nan"})
    EXPECT_EQ(error_of([&] { make_codec(wrong); }),
              fmt::format("topk wants a share above 0 and up to 1, like \"topk:0.01\", got \"{}\"", wrong));
}

TEST(ErrorFeedback, AddsWhatWasLostTheTimeBefore) {
  const auto codec = make_codec("one_bit");
  ErrorFeedback feedback(codec, 2);
  const at::Tensor value = at::tensor({3.0f, -1.0f}), out = at::zeros({2});
  const Message message(codec->bytes(2));
  feedback.encode(value, 0, message);
  EXPECT_EQ(feedback.error[0].item<float>(), 1) << "3 was sent as 2";
  feedback.encode(value, 0, message);
  codec->decode(message, out);
  EXPECT_EQ(out[0].item<float>(), 2) << "4 and 0 have the mean 2";
  EXPECT_EQ(out[1].item<float>(), 2) << "zero counts as plus";
  feedback.reset();
  EXPECT_EQ(feedback.error[0].item<float>(), 0);
}

}  // namespace
}  // namespace thinwire::compress
