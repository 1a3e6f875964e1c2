// Error feedback: what a codec loses of one vector is added to the next one, so that in the long run everything
// arrives.
//
//   message = C(x + e),  e = (x + e) - decoded message        (1-bit SGD; Karimireddy et al. 1901.09847)
//
// The error belongs to a place (element i of one vector), and to a unit: call reset() where what is sent is scaled
// differently from now on.
#pragma once

#include <ATen/core/Tensor.h>

#include "thinwire/compress/codec.h"

namespace thinwire::compress {

// A value: copies share the error's memory, as tensors do. Used by one thread at a time.
class ErrorFeedback {
 public:
  ErrorFeedback() = default;
  // Zero errors for a vector of n numbers.
  ErrorFeedback(CodecPtr codec, int64_t n, at::TensorOptions options = at::kFloat);

  // Encodes x, which is elements [at, at + x.numel()) of the vector, with their errors, and updates these. Returns what
  // Codec::encode returns: -1, or about where a number is not finite; then the error is undefined.
  int64_t encode(const at::Tensor& x, int64_t at, const at::Tensor& message, const ValidCounts& valid = {});
  void reset() { error.zero_(); }

  at::Tensor error;  // fp32, one a number; part of a checkpoint

 private:
  CodecPtr codec_;
};

}  // namespace thinwire::compress
