#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "thinwire/base/errors.h"
#include "thinwire/base/options.h"
#include "thinwire/compress/codec.h"
#include "thinwire/kernels/one_bit.h"
#include "thinwire/kernels/quantise.h"
#include "thinwire/kernels/top_k.h"

namespace thinwire::compress {
namespace {

using Out = std::span<uint8_t>;
using In = std::span<const uint8_t>;

constexpr int64_t kHeader = 8, kBlock = 1024;
static_assert(kernels::kBitBlock == kBlock && kernels::kQuantBlock == kBlock);
enum class Id : uint8_t { plain = 0, one_bit = 1, quantised = 2, bf16 = 3, half = 4, top_k = 5 };

int64_t blocks(int64_t n) { return (n + kBlock - 1) / kBlock; }

// The header and the size, which every codec writes and checks alike.
class Framed : public Codec {
 public:
  Framed(std::string name, Id id, uint8_t parameter) : name_(std::move(name)), id_(id), parameter_(parameter) {}
  std::string name() const final { return name_; }
  int64_t bytes(int64_t n) const final { return kHeader + (body(n) + 3) / 4 * 4; }  // messages in a row stay aligned

  int64_t encode(const float* value, float* error, int64_t n, ValidCounts filled, Out out) const final {
    TORCH_CHECK(n >= 0 && n <= UINT32_MAX, "[compress.", name_, "] a message holds up to 2^32 - 1 numbers, got ", n);
    TORCH_CHECK(static_cast<int64_t>(out.size()) == bytes(n), "[compress.", name_, "] a message of ", n,
                " numbers has ", bytes(n), " bytes, got room for ", out.size());
    check_filled(n, filled);
    const auto count = static_cast<uint32_t>(n);
    const uint8_t head[4] = {'T', 'W', static_cast<uint8_t>(id_), parameter_};
    std::memcpy(out.data(), head, 4);
    std::memcpy(out.data() + 4, &count, 4);
    std::fill(out.begin() + kHeader + body(n), out.end(), 0);
    return n == 0 ? -1 : write(value, error, n, filled, out.subspan(kHeader));
  }

  void decode(In message, float* out, int64_t n, ValidCounts filled, bool add) const final {
    TORCH_CHECK(static_cast<int64_t>(message.size()) == bytes(n), "[compress.", name_, "] a message of ", n,
                " numbers has ", bytes(n), " bytes, got ", message.size());
    TORCH_CHECK(reinterpret_cast<uintptr_t>(message.data()) % 4 == 0, "[compress.", name_,
                "] a message starts at a multiple of four bytes");
    check_filled(n, filled);
    TORCH_CHECK(message[0] == 'T' && message[1] == 'W', "[compress.", name_, "] these bytes are not a message");
    TORCH_CHECK(message[2] == static_cast<uint8_t>(id_) && message[3] == parameter_, "[compress.", name_,
                "] the message was made by another codec: id ", int{message[2]}, ".", int{message[3]}, " instead of ",
                static_cast<int>(id_), ".", int{parameter_});
    uint32_t count;
    std::memcpy(&count, message.data() + 4, 4);
    TORCH_CHECK(count == n, "[compress.", name_, "] wanted a message of ", n, " numbers, got one of ", count);
    if (n > 0) read(message.subspan(kHeader), out, n, filled, add);
  }

 protected:
  virtual int64_t body(int64_t n) const = 0;
  virtual int64_t write(const float* value, float* error, int64_t n, ValidCounts filled, Out body) const = 0;
  virtual void read(In body, float* out, int64_t n, ValidCounts filled, bool add) const = 0;

  [[noreturn]] void bad(const char* what) const { TORCH_CHECK(false, "[compress.", name_, "] ", what); }

 private:
  void check_filled(int64_t n, ValidCounts filled) const {
    TORCH_CHECK(filled.empty() || static_cast<int64_t>(filled.size()) == blocks(n), "[compress.", name_, "] ", n,
                " numbers are ", blocks(n), " blocks, got counts of ", filled.size());
  }

  const std::string name_;
  const Id id_;
  const uint8_t parameter_;
};

// Scales in front of the packed numbers: of a block, or of nobody if one is not a number the encoder can write.
class Scaled : public Framed {
 public:
  using Framed::Framed;

 protected:
  static float* scales(Out body) { return reinterpret_cast<float*>(body.data()); }
  const float* checked_scales(In body, int64_t n) const {
    const auto* scale = reinterpret_cast<const float*>(body.data());
    bool fine = true;
    for (int64_t b = 0; b < blocks(n); ++b) fine &= scale[b] >= 0 && std::isfinite(scale[b]);
    if (!fine) bad("a scale of the message is negative or not finite");
    return scale;
  }
};

class OneBit final : public Scaled {
 public:
  OneBit() : Scaled("one_bit", Id::one_bit, 1) {}

 private:
  int64_t body(int64_t n) const override { return 4 * blocks(n) + (n + 7) / 8; }
  int64_t write(const float* value, float* error, int64_t n, ValidCounts filled, Out body) const override {
    return kernels::one_bit_encode(value, error, n, counts(filled), body.data() + 4 * blocks(n), scales(body));
  }
  void read(In body, float* out, int64_t n, ValidCounts filled, bool add) const override {
    kernels::one_bit_decode(out, n, counts(filled), body.data() + 4 * blocks(n), checked_scales(body, n), add);
  }
  static const int32_t* counts(ValidCounts filled) { return filled.empty() ? nullptr : filled.data(); }
};

class Quantised final : public Scaled {
 public:
  explicit Quantised(int bits)
      : Scaled("int" + std::to_string(bits), Id::quantised, static_cast<uint8_t>(bits)), bits_(bits) {}

 private:
  int64_t body(int64_t n) const override { return 4 * blocks(n) + kernels::quantised_bytes(n, bits_); }
  int64_t write(const float* value, float* error, int64_t n, ValidCounts, Out body) const override {
    return kernels::quantise(value, error, n, bits_, body.data() + 4 * blocks(n), scales(body));
  }
  void read(In body, float* out, int64_t n, ValidCounts, bool add) const override {
    kernels::dequantise(out, n, bits_, body.data() + 4 * blocks(n), checked_scales(body, n), add);
  }
  const int bits_;
};

// HalfPrecision bits by LibTorch's own conversion, a few thousand numbers at a time. What is too large for a half
// becomes its largest number; the rest stays in the error.
class HalfPrecision final : public Framed {
 public:
  explicit HalfPrecision(bool half)
      : Framed(half ? "half" : "bf16", half ? Id::half : Id::bf16, 16),
        type_(half ? at::kHalf : at::kBFloat16),
        top_(half ? 65504.0f : 3.38953139e38f) {}

 private:
  static constexpr int64_t kPart = 4096;

  int64_t body(int64_t n) const override { return 2 * n; }
  int64_t write(const float* value, float* error, int64_t n, ValidCounts, Out body) const override {
    alignas(64) float c[kPart];
    alignas(64) float sent[kPart];
    for (int64_t at = 0; at < n; at += kPart) {
      const int64_t size = std::min(kPart, n - at);
      bool fine = true;
      for (int64_t i = 0; i < size; ++i) {
        c[i] = error ? value[at + i] + error[at + i] : value[at + i];
        fine &= std::isfinite(c[i]);
        sent[i] = std::clamp(c[i], -top_, top_);
      }
      if (!fine) return at;
      at::Tensor part = at::from_blob(body.data() + 2 * at, {size}, type_), wide = at::from_blob(sent, {size});
      part.copy_(wide);
      if (!error) continue;
      wide.copy_(part);
      for (int64_t i = 0; i < size; ++i) error[at + i] = c[i] - sent[i];
    }
    return -1;
  }
  void read(In body, float* out, int64_t n, ValidCounts, bool add) const override {
    const at::Tensor part = at::from_blob(const_cast<uint8_t*>(body.data()), {n}, type_);
    at::Tensor wide = at::from_blob(out, {n});
    if (add)
      wide.add_(part);
    else
      wide.copy_(part);
  }
  const at::ScalarType type_;
  const float top_;
};

class TopK final : public Framed {
 public:
  TopK(std::string name, double share) : Framed(std::move(name), Id::top_k, 0), share_(share) {}

 private:
  int64_t kept(int64_t n) const {
    return std::min<int64_t>(n, static_cast<int64_t>(std::ceil(share_ * static_cast<double>(n))));
  }
  int64_t body(int64_t n) const override { return 8 * kept(n); }
  int64_t write(const float* value, float* error, int64_t n, ValidCounts, Out body) const override {
    const int64_t k = kept(n);
    const at::Tensor scratch = at::empty({n}, at::kFloat);
    return kernels::top_k_encode(value, error, n, k, scratch.mutable_data_ptr<float>(),
                                 reinterpret_cast<uint32_t*>(body.data()),
                                 reinterpret_cast<float*>(body.data() + 4 * k));
  }
  void read(In body, float* out, int64_t n, ValidCounts, bool add) const override {
    const int64_t k = kept(n);
    const auto* indices = reinterpret_cast<const uint32_t*>(body.data());
    const auto* values = reinterpret_cast<const float*>(body.data() + 4 * k);
    for (int64_t i = 0; i < k; ++i)
      if (indices[i] >= n || (i > 0 && indices[i] <= indices[i - 1]))
        bad("the indices of the message are out of order");
    if (!add) std::fill_n(out, n, 0.0f);
    for (int64_t i = 0; i < k; ++i) out[indices[i]] += values[i];
  }
  const double share_;
};

class Plain final : public Framed {
 public:
  Plain() : Framed("none", Id::plain, 32) {}

 private:
  int64_t body(int64_t n) const override { return 4 * n; }
  int64_t write(const float* value, float* error, int64_t n, ValidCounts, Out body) const override {
    auto* sent = reinterpret_cast<float*>(body.data());
    for (int64_t i = 0; i < n; ++i) sent[i] = error ? value[i] + error[i] : value[i];
    if (error) std::fill_n(error, n, 0.0f);
    const auto* wrong = std::find_if_not(sent, sent + n, [](float x) { return std::isfinite(x); });
    return wrong == sent + n ? -1 : wrong - sent;
  }
  void read(In body, float* out, int64_t n, ValidCounts, bool add) const override {
    const auto* sent = reinterpret_cast<const float*>(body.data());
    for (int64_t i = 0; i < n; ++i) out[i] = add ? out[i] + sent[i] : sent[i];
  }
};

}  // namespace

CodecPtr make_codec(std::string_view text) {
  if (text == "none") return std::make_shared<Plain>();
  if (text == "one_bit") return std::make_shared<OneBit>();
  if (text == "int8") return std::make_shared<Quantised>(8);
  if (text == "int4") return std::make_shared<Quantised>(4);
  if (text == "int2") return std::make_shared<Quantised>(2);
  if (text == "bf16" || text == "half") return std::make_shared<HalfPrecision>(text == "half");
  if (text.starts_with("topk:")) {
    double share = 0;
    const char *from = text.data() + 5, *to = text.data() + text.size();
    const auto [end, error] = std::from_chars(from, to, share);
    if (error != std::errc() || end != to || !(share > 0 && share <= 1))
      throw BadInput("topk wants a share above 0 and up to 1, like \"topk:0.01\", got \"{}\"", text);
    return std::make_shared<TopK>(std::string(text), share);
  }
  const std::string near = nearest(text, {"none", "one_bit", "int8", "int4", "int2", "bf16", "half", "topk:0.01"});
  throw BadInput("there is no codec \"{}\"{}", text,
                 near.empty() ? " (there are: none, one_bit, int8, int4, int2, bf16, half, topk:SHARE)"
                              : "; did you mean \"" + near + "\"?");
}

void from_text(std::string_view text, CodecName& name) {
  make_codec(text);
  name.text = text;
}
std::string to_text(const CodecName& name) { return name.text; }

}  // namespace thinwire::compress
