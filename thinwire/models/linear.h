// x W^T, whose weight gradient can be deferred.
#pragma once

#include <ATen/core/Tensor.h>

namespace thinwire::models {

// at::linear(x_BTI, weight_OI). Where a DeferredWork (thinwire/base/deferred_work.h) is open during the forward, the
// backward gives the input's gradient at once and leaves adding to weight.grad() for later; the numbers are the same
// bits either way.
at::Tensor linear(const at::Tensor& x_BTI, const at::Tensor& weight_OI);

}  // namespace thinwire::models
