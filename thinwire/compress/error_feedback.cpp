#include "thinwire/compress/error_feedback.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

namespace thinwire::compress {

ErrorFeedback::ErrorFeedback(CodecPtr codec, int64_t n, at::TensorOptions options)
    : error(at::zeros({n}, options)), codec_(std::move(codec)) {}

int64_t ErrorFeedback::encode(const at::Tensor& x, int64_t at, const at::Tensor& message, const ValidCounts& valid) {
  TORCH_CHECK(at >= 0 && at + x.numel() <= error.numel(), "[compress] there are errors of ", error.numel(),
              " numbers, asked for [", at, ", ", at + x.numel(), ")");
  return codec_->encode(x, error.narrow(0, at, x.numel()), message, valid);
}

}  // namespace thinwire::compress
