// Codecs: a vector of fp32 numbers to a short message and back. The seam behind which every compression method fits;
// any codec goes with any strategy. Error feedback (error_feedback.h) and the collective (compressed_all_reduce.h) are
// written once over it.
//
// A message starts with eight bytes: "TW", the codec's id, one byte of its parameter, and the number of elements
// (32 bits, little-endian). What follows is the codec's own; its size is a function of the number of elements alone, so
// that both sides know it beforehand and no length travels. Messages start at multiples of four bytes, and their sizes
// are such multiples.
//
// A codec is a value without memory: all methods are const, may be called from any thread, and give the same bytes for
// the same numbers on every CPU. Messages are untrusted: decode() checks all it relies on and never reads beyond the
// message. To add one: derive from Codec (codecs.cpp has a base that writes and checks the header), and add a row to
// the table there; names, help and recipe keys follow from it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::compress {

// How many elements of each block (kernels/range.h) are valid, from the block's beginning: int32, one a block; or
// undefined: all. The flat weights of a model have padding at the end of every unit, and a scale that is a mean over it
// would be too small.
using ValidCounts = at::Tensor;

class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string name() const = 0;  // as make_codec() takes it

  // Exact size of a message of n elements, header included; n < 2^32.
  virtual int64_t bytes(int64_t n) const = 0;

  // Encodes x + error (which may be undefined) into `message`, which has bytes(n) bytes; error becomes what was lost.
  // x and error are contiguous vectors of n fp32 numbers; x is not changed. Returns -1, or about where (within a block)
  // the first number is that is not finite; message and error are then undefined.
  virtual int64_t encode(const at::Tensor& x, const at::Tensor& error, const at::Tensor& message,
                         const ValidCounts& valid = {}) const = 0;
  // x = (or, with add, +=) what the message says; `valid` as it was encoded with. c10::Error if it is not a
  // message of this codec with n elements; x is then undefined.
  virtual void decode(const at::Tensor& message, const at::Tensor& x, const ValidCounts& valid = {},
                      bool add = false) const = 0;
};
using CodecPtr = std::shared_ptr<const Codec>;

// By name, with the parameter after a colon where it has one: "int8", "topk:0.01". BadInput, with the nearest name, if
// there is none; BadInput if the parameter is out of range.
CodecPtr make_codec(std::string_view text);
// "none" (fp32 as it is), "one_bit", ..., "topk:SHARE".
std::vector<std::string> codec_names();
// Whether it is accurate enough to send weights with it, not only their changes. BadInput as make_codec().
bool carries_weights(std::string_view text);

// A codec as an option of a recipe: its name, checked when it is read (BadInput), and the help text of such an option.
struct CodecName {
  std::string text = "none";
};
void from_text(std::string_view text, CodecName& name);
std::string to_text(const CodecName& name);
std::string codec_help();

}  // namespace thinwire::compress
