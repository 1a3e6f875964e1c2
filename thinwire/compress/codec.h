// Makes a vector of fp32 numbers small, and a vector again: what travels is one message, self-describing and checked.
//
// A message starts with eight bytes: "TW", the codec's id, one byte of its parameter, and the number of elements
// (32 bits, little end first). What follows is the codec's own; its size is a function of the number of elements alone.
// Messages are taken to be untrusted bytes: decode() checks all it relies on and never reads beyond the message.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::compress {

// How many elements of each block (kernels/range.h) count, from the block's beginning: int32, or undefined: all. The
// flat weights of a model have padding at the end of every unit, and a mean over it would be too small.
using ValidCounts = at::Tensor;

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string name() const = 0;

  // Exact size of a message of n elements.
  virtual int64_t bytes(int64_t n) const = 0;

  // Encodes x + error (which may be undefined) into `message`, which has bytes(n) bytes; error becomes what was lost.
  // x and error are one row of fp32 numbers each. Returns -1, or about where (within a block) the first number is that
  // is not finite; the message is then worthless.
  virtual int64_t encode(const at::Tensor& x, const at::Tensor& error, const at::Tensor& message,
                         const ValidCounts& valid = {}) const = 0;
  // x = (or, with add, +=) what the message says. c10::Error if it is not a message of this codec with n elements.
  virtual void decode(const at::Tensor& message, const at::Tensor& x, const ValidCounts& valid = {},
                      bool add = false) const = 0;
};
using CodecPtr = std::shared_ptr<const Codec>;

// By name. BadInput if there is none.
CodecPtr make_codec(std::string_view text);
// "none" (fp32 as it is), "one_bit", ..., "topk:SHARE".
std::vector<std::string> codec_names();
// Whether it says numbers closely enough to send weights with it, not only how they have changed.
bool carries_weights(std::string_view text);

// A codec as an option of a recipe: its text, checked when it is read.
struct CodecName {
  std::string text = "none";
};
void from_text(std::string_view text, CodecName& name);
std::string to_text(const CodecName& name);
std::string codec_help();

}  // namespace thinwire::compress
