// Remembers what a codec lost and adds it to what is sent next, so that in the long run everything arrives.
#pragma once

#include <ATen/core/Tensor.h>

#include "thinwire/compress/codec.h"

namespace thinwire::compress {

class ErrorFeedback {
 public:
  ErrorFeedback() = default;
  ErrorFeedback(CodecPtr codec, int64_t n, at::TensorOptions options = at::kFloat);

  // Encodes n numbers with the errors of elements [at, at + n). Returns what Codec::encode returns.
  int64_t encode(const at::Tensor& x, int64_t at, const at::Tensor& message, const ValidCounts& valid = {});
  // Forgets: needed where the unit of what is sent changes.
  void reset() { error.zero_(); }

  at::Tensor error;  // fp32, one a number; part of a checkpoint

 private:
  CodecPtr codec_;
};

}  // namespace thinwire::compress
