#include "thinwire/kernels/memory.h"

#include <c10/util/Exception.h>

namespace thinwire::kernels {

void check(const at::Tensor& x, at::ScalarType type, Range range) {
  TORCH_CHECK(x.defined(), "[kernels] wanted a tensor, got none");
  TORCH_CHECK(x.scalar_type() == type && x.is_contiguous(), "[kernels] wanted contiguous ",
              type == at::kFloat ? "fp32" : c10::toString(type), ", got ", x.is_contiguous() ? "" : "strided ",
              x.scalar_type());
  if (!x.device().is_cpu()) throw_no_kernels(x.device());
  TORCH_CHECK(range.at >= 0 && range.numel >= 0 && range.at + range.numel <= x.numel(), "[kernels] wanted elements [",
              range.at, ", ", range.at + range.numel, ") of a vector of ", x.numel());
}

}  // namespace thinwire::kernels
