#include <ATen/ops/add.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "thinwire/base/did_you_mean.h"
#include "thinwire/base/errors.h"
#include "thinwire/base/options.h"
#include "thinwire/compress/codec.h"
#include "thinwire/kernels/half.h"
#include "thinwire/kernels/host_span.h"
#include "thinwire/kernels/one_bit.h"
#include "thinwire/kernels/quantise.h"
#include "thinwire/kernels/threshold.h"
#include "thinwire/kernels/top_k.h"

namespace thinwire::compress {
namespace {

constexpr int64_t kHeader = 8;
enum class Id : uint8_t { plain = 0, one_bit = 1, quantised = 2, bf16 = 3, half = 4, top_k = 5 };

// The header and the size, which every codec writes and checks alike.
class Framed : public Codec {
 public:
  Framed(std::string name, Id id, uint8_t parameter) : name_(std::move(name)), id_(id), parameter_(parameter) {}
  std::string name() const final { return name_; }
  int64_t bytes(int64_t n) const final { return kHeader + (body(n) + 3) / 4 * 4; }  // messages in a row stay aligned

  int64_t encode(const at::Tensor& x, const at::Tensor& error, const at::Tensor& message,
                 const ValidCounts& valid) const final {
    const int64_t n = x.numel();
    TORCH_CHECK(n <= UINT32_MAX, "[compress.", name_, "] a message holds up to 2^32 - 1 numbers, got ", n);
    const auto bytes = checked(message, n, valid);
    TORCH_CHECK(!error.defined() || error.numel() == n, "[compress.", name_, "] ", n,
                " numbers came with the errors of ", error.numel());
    const auto count = static_cast<uint32_t>(n);
    const uint8_t head[4] = {'T', 'W', static_cast<uint8_t>(id_), parameter_};
    std::memcpy(bytes.data(), head, 4);
    std::memcpy(bytes.data() + 4, &count, 4);
    std::ranges::fill(bytes.subspan(kHeader + body(n)), 0);
    return n == 0 ? -1 : write(x, error, message.narrow(0, kHeader, body(n)), valid);
  }

  void decode(const at::Tensor& message, const at::Tensor& x, const ValidCounts& valid, bool add) const final {
    const int64_t n = x.numel();
    const auto bytes = checked(message, n, valid);
    TORCH_CHECK(bytes[0] == 'T' && bytes[1] == 'W', "[compress.", name_, "] these bytes are not a message");
    TORCH_CHECK(bytes[2] == static_cast<uint8_t>(id_) && bytes[3] == parameter_, "[compress.", name_,
                "] the message was made by another codec: id ", int{bytes[2]}, ".", int{bytes[3]}, " instead of ",
                static_cast<int>(id_), ".", int{parameter_});
    uint32_t count;
    std::memcpy(&count, bytes.data() + 4, 4);
    TORCH_CHECK(count == n, "[compress.", name_, "] wanted a message of ", n, " numbers, got one of ", count);
    if (n > 0) read(message.narrow(0, kHeader, body(n)), x, valid, add);
  }

 protected:
  virtual int64_t body(int64_t n) const = 0;  // its bytes
  virtual int64_t write(const at::Tensor& x, const at::Tensor& error, const at::Tensor& body,
                        const ValidCounts& valid) const = 0;
  virtual void read(const at::Tensor& body, const at::Tensor& x, const ValidCounts& valid, bool add) const = 0;

  void check(bool fine, const char* what) const { TORCH_CHECK(fine, "[compress.", name_, "] ", what); }

 private:
  std::span<uint8_t> checked(const at::Tensor& message, int64_t n, const ValidCounts& valid) const {
    TORCH_CHECK(message.numel() == bytes(n), "[compress.", name_, "] a message of ", n, " numbers has ", bytes(n),
                " bytes, got ", message.numel());
    TORCH_CHECK(!valid.defined() || valid.numel() == kernels::blocks(n), "[compress.", name_, "] ", n, " numbers are ",
                kernels::blocks(n), " blocks, got counts of ", valid.numel());
    const auto bytes = kernels::host_span<uint8_t>(message);
    TORCH_CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % 4 == 0, "[compress.", name_,
                "] a message starts at a multiple of four bytes");
    return bytes;
  }

  const std::string name_;
  const Id id_;
  const uint8_t parameter_;
};

constexpr const char* kBadScale = "a scale of the message is negative or not finite";

class OneBit final : public Framed {
 public:
  OneBit() : Framed("one_bit", Id::one_bit, 1) {}

 private:
  int64_t body(int64_t n) const override { return kernels::one_bit_bytes(n); }
  int64_t write(const at::Tensor& x, const at::Tensor& error, const at::Tensor& body,
                const ValidCounts& valid) const override {
    return kernels::one_bit_encode(x, error, body, valid);
  }
  void read(const at::Tensor& body, const at::Tensor& x, const ValidCounts& valid, bool add) const override {
    check(kernels::one_bit_decode(body, x, valid, add), kBadScale);
  }
};

class Quantised final : public Framed {
 public:
  explicit Quantised(int bits)
      : Framed("int" + std::to_string(bits), Id::quantised, static_cast<uint8_t>(bits)), bits_(bits) {}

 private:
  int64_t body(int64_t n) const override { return kernels::quantised_bytes(n, bits_); }
  int64_t write(const at::Tensor& x, const at::Tensor& error, const at::Tensor& body,
                const ValidCounts&) const override {
    return kernels::quantise(x, error, bits_, body);
  }
  void read(const at::Tensor& body, const at::Tensor& x, const ValidCounts&, bool add) const override {
    check(kernels::dequantise(body, bits_, x, add), kBadScale);
  }
  const int bits_;
};

// What is too large for a half becomes its largest number; the rest stays in the error.
class HalfPrecision final : public Framed {
 public:
  explicit HalfPrecision(bool half)
      : Framed(half ? "half" : "bf16", half ? Id::half : Id::bf16, 16), type_(half ? at::kHalf : at::kBFloat16) {}

 private:
  int64_t body(int64_t n) const override { return 2 * n; }
  int64_t write(const at::Tensor& x, const at::Tensor& error, const at::Tensor& body,
                const ValidCounts&) const override {
    return kernels::half_encode(x, error, body.view(type_));
  }
  void read(const at::Tensor& body, const at::Tensor& x, const ValidCounts&, bool add) const override {
    add ? x.add_(body.view(type_)) : x.copy_(body.view(type_));
  }
  const at::ScalarType type_;
};

class TopK final : public Framed {
 public:
  TopK(std::string name, double share) : Framed(std::move(name), Id::top_k, 0), share_(share) {}

 private:
  int64_t body(int64_t n) const override {
    return 8 * std::min<int64_t>(n, static_cast<int64_t>(std::ceil(share_ * static_cast<double>(n))));
  }
  int64_t write(const at::Tensor& x, const at::Tensor& error, const at::Tensor& body,
                const ValidCounts&) const override {
    return kernels::top_k_encode(x, error, body);
  }
  void read(const at::Tensor& body, const at::Tensor& x, const ValidCounts&, bool add) const override {
    check(kernels::top_k_decode(body, x, add), "the indices of the message are out of order");
  }
  const double share_;
};

class Plain final : public Framed {
 public:
  Plain() : Framed("none", Id::plain, 32) {}

 private:
  int64_t body(int64_t n) const override { return 4 * n; }
  int64_t write(const at::Tensor& x, const at::Tensor& error, const at::Tensor& body,
                const ValidCounts&) const override {
    at::Tensor sent = body.view(at::kFloat);
    if (error.defined()) {
      at::add_out(sent, x, error);
      error.zero_();
    } else {
      sent.copy_(x);
    }
    return kernels::first_reaching(sent, kernels::kNotFinite);
  }
  void read(const at::Tensor& body, const at::Tensor& x, const ValidCounts&, bool add) const override {
    add ? x.add_(body.view(at::kFloat)) : x.copy_(body.view(at::kFloat));
  }
};

CodecPtr make_top_k(std::string_view text) {
  double share = 0;
  const char *from = text.data() + text.find(':') + 1, *to = text.data() + text.size();
  const auto [end, error] = std::from_chars(from, to, share);
  if (error != std::errc() || end != to || !(share > 0 && share <= 1))
    throw BadInput("topk wants a share above 0 and up to 1, like \"topk:0.01\", got \"{}\"", text);
  return std::make_shared<TopK>(std::string(text), share);
}

struct Entry {
  std::string name;                // ends in ':' where a parameter follows
  std::string parameter, example;  // what it is called, and one
  bool carries_weights;
  CodecPtr (*make)(std::string_view text);
};

const std::vector<Entry>& table() {
  static const std::vector<Entry> codecs = {
      {"none", "", "", true, [](std::string_view) -> CodecPtr { return std::make_shared<Plain>(); }},
      {"one_bit", "", "", false, [](std::string_view) -> CodecPtr { return std::make_shared<OneBit>(); }},
      {"int8", "", "", true, [](std::string_view) -> CodecPtr { return std::make_shared<Quantised>(8); }},
      {"int4", "", "", false, [](std::string_view) -> CodecPtr { return std::make_shared<Quantised>(4); }},
      {"int2", "", "", false, [](std::string_view) -> CodecPtr { return std::make_shared<Quantised>(2); }},
      {"bf16", "", "", true, [](std::string_view) -> CodecPtr { return std::make_shared<HalfPrecision>(false); }},
      {"half", "", "", true, [](std::string_view) -> CodecPtr { return std::make_shared<HalfPrecision>(true); }},
      {"topk:", "SHARE", "0.01", false, make_top_k},
  };
  return codecs;
}

const Entry& entry(std::string_view text) {
  std::vector<std::string> names;
  for (const Entry& codec : table()) {
    if (codec.parameter.empty() ? text == codec.name : text.starts_with(codec.name)) return codec;
    names.push_back(codec.name + codec.example);
  }
  throw BadInput("there is no codec \"{}\"{}", text, did_you_mean_or_list(text, names, {"\"", "\""}));
}

}  // namespace

CodecPtr make_codec(std::string_view text) { return entry(text).make(text); }

bool carries_weights(std::string_view text) { return entry(text).carries_weights; }

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const Entry& codec : table()) names.push_back(codec.name + codec.parameter);
  return names;
}

std::string codec_help() { return fmt::format("how numbers are made small: {}", fmt::join(codec_names(), ", ")); }

void from_text(std::string_view text, CodecName& name) {
  make_codec(text);
  name.text = text;
}
std::string to_text(const CodecName& name) { return name.text; }

}  // namespace thinwire::compress
