// Remembers what a codec lost and adds it to what is sent next, so that in the long run everything arrives.
#pragma once

#include <ATen/core/Tensor.h>

#include "thinwire/compress/codec.h"

namespace thinwire::compress {

class ErrorFeedback {
 public:
  ErrorFeedback() = default;
  ErrorFeedback(CodecPtr codec, int64_t n);

  // Encodes value[0 .. n) with the errors of elements [at, at + n). Returns what Codec::encode returns.
  int64_t encode(const float* value, int64_t at, int64_t n, ValidCounts filled, std::span<uint8_t> out);
  // Forgets: needed where the unit of what is sent changes.
  void reset() { error.zero_(); }

  at::Tensor error;  // fp32, one a number; part of a checkpoint

 private:
  CodecPtr codec_;
};

}  // namespace thinwire::compress
