// Makes a vector of fp32 numbers small, and a vector again: what travels is one message, self-describing and checked.
//
// A message starts with eight bytes: "TW", the codec's id, one byte of its parameter, and the number of elements
// (32 bits, little end first). What follows is the codec's own; its size is a function of the number of elements alone.
// Messages are taken to be untrusted bytes: decode() checks all it relies on and never reads beyond the message.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace thinwire::compress {

// How many elements of each block of 1024 count, from the block's beginning; empty: all. The flat weights of a model
// have padding at the end of every unit, and a mean over it would be too small.
using ValidCounts = std::span<const int32_t>;

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string name() const = 0;

  // Exact size of a message of n elements.
  virtual int64_t bytes(int64_t n) const = 0;

  // Encodes value + error (error may be nullptr) into `out`, which has bytes(n) bytes; error becomes what was lost.
  // Returns -1, or about where (within a block) the first number is that is not finite; `out` is then worthless.
  virtual int64_t encode(const float* value, float* error, int64_t n, ValidCounts filled,
                         std::span<uint8_t> out) const = 0;
  // out = (or, with add, +=) what the message says. c10::Error if it is not a message of this codec with n elements.
  virtual void decode(std::span<const uint8_t> message, float* out, int64_t n, ValidCounts filled, bool add) const = 0;
};
using CodecPtr = std::shared_ptr<const Codec>;

// "one_bit", "int8", "int4", "int2", "bf16", "half", "topk:0.01", or "none" (fp32 as it is). BadInput otherwise.
CodecPtr make_codec(std::string_view text);

// A codec as an option of a recipe: its text, checked when it is read.
struct CodecName {
  std::string text = "none";
};
void from_text(std::string_view text, CodecName& name);
std::string to_text(const CodecName& name);
inline constexpr const char* kCodecHelp =
    "how numbers are made small: none, one_bit, int8, int4, int2, bf16, half, topk:SHARE";

}  // namespace thinwire::compress
