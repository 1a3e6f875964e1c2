#include "thinwire/models/head.h"

#include <ATen/ops/layer_norm.h>

#include "thinwire/models/linear.h"
#include "thinwire/models/parameters.h"

namespace thinwire::models {

at::Tensor norm(const at::Tensor& x, const at::Tensor& weight) { return at::layer_norm(x, weight.sizes(), weight); }

Head::Head(int64_t vocabulary, int64_t width, Seed seed, const at::Tensor& tied)
    : norm_(add_ones(*this, "head.norm", width, seed)),
      matrix_(tied.defined() ? tied : add_normal(*this, "head.linear", {vocabulary, width}, kInitStd, seed)) {}

at::Tensor Head::forward(const at::Tensor& x_BTW) { return models::linear(norm(x_BTW, norm_), matrix_); }

}  // namespace thinwire::models
