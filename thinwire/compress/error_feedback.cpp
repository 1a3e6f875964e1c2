#include "thinwire/compress/error_feedback.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

namespace thinwire::compress {

ErrorFeedback::ErrorFeedback(CodecPtr codec, int64_t n) : error(at::zeros({n}, at::kFloat)), codec_(std::move(codec)) {}

int64_t ErrorFeedback::encode(const float* value, int64_t at, int64_t n, ValidCounts filled, std::span<uint8_t> out) {
  TORCH_CHECK(at >= 0 && n >= 0 && at + n <= error.numel(), "[compress] there are errors of ", error.numel(),
              " numbers, asked for [", at, ", ", at + n, ")");
  return codec_->encode(value, error.mutable_data_ptr<float>() + at, n, filled, out);
}

}  // namespace thinwire::compress
