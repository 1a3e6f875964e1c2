#include "thinwire/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <system_error>

#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"

namespace thinwire::checkpoint {
namespace {

namespace fs = std::filesystem;
using Tensors = std::map<std::string, at::Tensor>;

struct TempFile {
  fs::path path = fs::temp_directory_path() / ("thinwire_safetensors_" + std::to_string(::getpid()));
  ~TempFile() { fs::remove(path); }
};

std::string bytes_of(const at::Tensor& x) {
  const at::Tensor flat = x.contiguous();
  return {static_cast<const char*>(flat.const_data_ptr()), flat.nbytes()};
}

// A tensor whose bytes count up; 0 and 1 for bool.
at::Tensor pattern(at::IntArrayRef shape, at::ScalarType type) {
  at::Tensor x = at::zeros(shape, type);
  auto* bytes = static_cast<unsigned char*>(x.mutable_data_ptr());
  for (size_t i = 0; i < x.nbytes(); ++i) bytes[i] = type == at::kBool ? i % 2 : i * 37 + 11;
  return x;
}

std::string file(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

std::string error_of(const std::string& bytes) {
  try {
    parse_safetensors(bytes, "dir/x.safetensors");
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

const std::string kGoldenHeader =
    R"({"__metadata__":{"by":"hand"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
const std::string kGoldenData = std::string("\0\0\x80\x3f\0\0\0\xc0\x07", 9);  // 1, -2; 7

std::string golden() { return file(kGoldenHeader + std::string((8 - kGoldenHeader.size() % 8) % 8, ' '), kGoldenData); }

TEST(Safetensors, EveryTypeAndShapeComesBackToTheBit) {
  Tensors tensors;
  for (auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
                    at::kByte, at::kBool})
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{}, {0}, {1}, {7}, {3, 5}, {2, 0, 4}, {1, 2, 3, 4, 5}})
      tensors[std::string(c10::toString(type)) + std::to_string(shape.size()) + "/" + std::to_string(tensors.size())] =
          pattern(shape, type);
  const std::map<std::string, std::string> metadata{{"", "empty"}, {"quote \" and é", "line\nbreak \x01"}};
  TempFile temp;
  write_safetensors(temp.path, tensors, metadata);
  const Safetensors back = read_safetensors(temp.path);
  EXPECT_EQ(back.metadata, metadata);
  ASSERT_EQ(back.tensors.size(), tensors.size());
  for (const auto& [name, x] : tensors) {
    const at::Tensor& y = back.tensors.at(name);
    EXPECT_EQ(y.scalar_type(), x.scalar_type()) << name;
    EXPECT_EQ(y.sizes(), x.sizes()) << name;
    EXPECT_EQ(bytes_of(y), bytes_of(x)) << name;
  }
}

TEST(Safetensors, WritesExactlyTheBytesTheFormatAsksFor) {
  at::Tensor a = at::ones({2}, at::kFloat), b = at::ones({}, at::kByte);
  a[1] = -2;
  b.fill_(7);
  TempFile temp;
  const Written written = write_safetensors(temp.path, {{"b", b}, {"a", a}}, {{"by", "hand"}});
  const std::string bytes = read_file(temp.path);
  EXPECT_EQ(bytes, golden());
  EXPECT_EQ(written.bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(written.xxh3, XXH3_64bits(bytes.data(), bytes.size()));
}

TEST(Safetensors, DataStartsAtAMultipleOfEight) {
  TempFile temp;
  for (std::string name; name.size() < 9; name += "n") {
    write_safetensors(temp.path, {{name, at::ones({1}, at::kByte)}});
    EXPECT_EQ(fs::file_size(temp.path) % 8, 1u);
    EXPECT_EQ(read_safetensors(temp.path).tensors.count(name), 1u);
  }
}

TEST(Safetensors, NoTensorsAtAllIsAFileToo) {
  TempFile temp;
  write_safetensors(temp.path, {});
  EXPECT_EQ(read_file(temp.path), file("{}      "));
  EXPECT_TRUE(read_safetensors(temp.path).tensors.empty());
}

TEST(Safetensors, StridedViewsAreWrittenAsTheirElements) {
  const at::Tensor x = pattern({3, 4}, at::kInt);
  TempFile temp;
  write_safetensors(temp.path, {{"t", x.t()}});
  const at::Tensor y = read_safetensors(temp.path).tensors.at("t");
  EXPECT_EQ(y.sizes(), at::IntArrayRef({4, 3}));
  EXPECT_EQ(bytes_of(y), bytes_of(x.t()));
}

TEST(Safetensors, ReadsTensorsInAnyOrderInTheFile) {
  const auto read = parse_safetensors(file(R"({"a":{"data_offsets":[1,2],"dtype":"I8","shape":[1]},)"
                                           R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                           "\x05\x06"),
                                      "x");
  EXPECT_EQ(read.tensors.at("a").item<int>(), 6);
  EXPECT_EQ(read.tensors.at("b").item<int>(), 5);
}

TEST(Safetensors, BrokenInputIsAnErrorThatSaysWhatIsWrong) {
  const auto one = [](const std::string& entry) { return file("{\"a\":" + entry + "}", "12345678"); };
  const auto shape = [&](const std::string& sizes) {
    return one(R"({"dtype":"F64","shape":[)" + sizes + R"(],"data_offsets":[0,8]})");
  };
  const auto at = [&](const std::string& offsets) {
    return one(R"({"dtype":"U8","shape":[8],"data_offsets":)" + offsets + "}");
  };
  const auto two = [](const std::string& a, const std::string& b) {
    return file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[)" + a +
                    R"(]},"b":{"dtype":"U8","shape":[4],"data_offsets":[)" + b + "]}}",
                "12345678");
  };
  std::string dims = "1";
  for (int i = 0; i < 64; ++i) dims += ",1";
  const std::string fields = " should have dtype, shape and data_offsets";
  const std::string kShape = "tensor \"a\": shape should be a list of whole numbers";
  const std::string kOffsets = "tensor \"a\": data_offsets should be two whole numbers";
  const std::string kCount = "tensor \"a\": shape has more elements than can be counted";
  const std::string kJson = "the header is not a JSON object";
  const std::pair<std::string, std::string> broken[] = {
      {"", "0 bytes are too few for a safetensors file"},
      {"1234567", "7 bytes are too few for a safetensors file"},
      {std::string("\x03\0\0\0\0\0\0\0{}", 10), "the header should have 3 bytes, the file has room for 2"},
      {std::string(8, '\xff') + "{}", "the header should have 18446744073709551615 bytes, the file has room for 2"},
      {file(std::string(100'000'001, ' ')), "the header should have 100000001 bytes, the most allowed is 100000000"},
      {file(""), kJson},
      {file("{"), kJson},
      {file("[]"), kJson},
      {file(" {}"), kJson},
      {file("\xef\xbb\xbf{}"), kJson},
      {file("{} x"), kJson},
      {file(std::string("{}\0", 3)), kJson},
      {file("{\"\xff\":{}}"), kJson},
      {file("{\"a\":1e999}"), kJson},
      {file("{\"a\":{\"b\":[[1]]}}"), "the header is nested too deep"},
      {file("{\"a\":" + std::string(1'000'000, '[')), "the header is nested too deep"},
      {file("{\"a\":{},\"a\":{}}"), "the header has \"a\" twice"},
      {file("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\"}}"), "the header has \"dtype\" twice"},
      {file("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}"), "the header has \"k\" twice"},
      {file("{\"__metadata__\":[]}"), "__metadata__ should be an object, is array"},
      {file("{\"__metadata__\":{\"k\":1}}"), "__metadata__ \"k\" should be a string, is number"},
      {file("{\"a\":3}"), "tensor \"a\"" + fields},
      {file("{\"line\\nbreak\":{}}"), "tensor \"line\\nbreak\"" + fields},
      {one(R"({"dtype":"U8","shape":[8]})"), "tensor \"a\"" + fields},
      {one(R"({"dtype":"U8","shape":[8],"data_offsets":[0,8],"more":1})"), "tensor \"a\"" + fields},
      {one(R"({"dtype":"F8","shape":[8],"data_offsets":[0,8]})"), "tensor \"a\" has an unknown dtype \"F8\""},
      {one(R"({"dtype":8,"shape":[8],"data_offsets":[0,8]})"), "tensor \"a\" has an unknown dtype number"},
      {one(R"({"dtype":"U8","shape":8,"data_offsets":[0,8]})"), kShape},
      {shape("-1"), kShape},
      {shape("1.0"), kShape},
      {shape("\"1\""), kShape},
      {shape("9223372036854775808"), kShape},
      {shape("99999999999999999999"), kShape},
      {shape("9223372036854775807"), kCount},
      {shape("4294967296,4294967296"), kCount},
      {shape("0,4294967296,4294967296"), kCount},
      {shape("4294967296,4294967296,0"), kCount},
      {shape(dims), "the header has a list of more than 64 numbers"},
      {shape("2"), "tensor \"a\" should have 16 bytes for its shape and dtype, has 8"},
      {shape("0"), "tensor \"a\" should have 0 bytes for its shape and dtype, has 8"},
      {at("8"), kOffsets},
      {at("[8]"), kOffsets},
      {at("[0,4,8]"), kOffsets},
      {at("[-8,0]"), kOffsets},
      {at("[8,0]"), "tensor \"a\" is at bytes 8 to 0 of 8"},
      {at("[1,9]"), "tensor \"a\" is at bytes 1 to 9 of 8"},
      {at("[9223372036854775799,9223372036854775807]"),
       "tensor \"a\" is at bytes 9223372036854775799 to 9223372036854775807 of 8"},
      {two("0,4", "0,4"), "tensor \"b\" should start at byte 4, starts at 0"},
      {two("0,4", "3,7"), "tensor \"b\" should start at byte 4, starts at 3"},
      {file(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", "1234"),
       "tensor \"a\" should start at byte 0, starts at 2"},
      {file(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "1234"), "the tensors end at byte 2 of 4"},
      {file("{}", "1"), "the tensors end at byte 0 of 1"},
      {file(R"({"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", "\x01\x02"),
       "tensor \"a\" is BOOL and has bytes other than 0 and 1"},
  };
  for (const auto& [bytes, text] : broken) EXPECT_EQ(error_of(bytes), "dir/x.safetensors: " + text);
}

TEST(Safetensors, AFileCutShortAnywhereIsAnError) {
  const std::string whole = golden();
  ASSERT_EQ(error_of(whole), "no error");
  for (size_t n = 0; n < whole.size(); ++n)
    EXPECT_TRUE(error_of(whole.substr(0, n)).starts_with("dir/x.safetensors: ")) << n;
  EXPECT_EQ(error_of(whole + "x"), "dir/x.safetensors: the tensors end at byte 9 of 10");
}

TEST(Safetensors, AFlippedBitIsAnErrorOrOtherValuesOfTheSameSize) {
  const std::string whole = golden();
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const std::string text = error_of(bytes);
    EXPECT_TRUE(text == "no error" || text.starts_with("dir/x.safetensors: ")) << bit << text;
    if (text != "no error") continue;
    size_t total = 0;
    for (const auto& [name, x] : parse_safetensors(bytes, "x").tensors) total += x.nbytes();
    EXPECT_EQ(total, kGoldenData.size()) << bit;
  }
}

TEST(Safetensors, FilesThatCannotBeReadAreErrorsThatStartWithThePath) {
  for (const auto& [path, text] : {std::pair<std::string, std::string>{"/nowhere/x", "/nowhere/x: No such file"},
                                   {"/tmp", "/tmp: not a plain file"},
                                   {"/dev/zero", "/dev/zero: not a plain file"}}) {
    try {
      read_safetensors(path);
      FAIL() << "nothing was thrown";
    } catch (const std::exception& error) {
      EXPECT_TRUE(one_line(error).starts_with(text)) << one_line(error);
    }
  }
}

TEST(Safetensors, WhatTheFormatCannotHoldIsNotWritten) {
  const auto error = [](const Tensors& tensors) -> std::string {
    try {
      write_safetensors("/dev/null", tensors);
    } catch (const c10::Error& thrown) {
      return thrown.what_without_backtrace();
    }
    return "no error";
  };
  EXPECT_EQ(error({{"__metadata__", at::ones({1})}}),
            "/dev/null: cannot write a tensor \"__metadata__\", the name is taken");
  EXPECT_EQ(error({{"a", at::Tensor()}}), "/dev/null: cannot write a tensor \"a\", it has no value");
  EXPECT_EQ(error({{"a", at::zeros({1}, at::kComplexFloat)}}),
            "/dev/null: cannot write tensor \"a\" of type ComplexFloat");
}

}  // namespace
}  // namespace thinwire::checkpoint
