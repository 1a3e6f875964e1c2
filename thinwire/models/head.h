// The last unit of a language model, and the norm it shares with the units before it. For gpt.cpp and mlp.cpp, which
// differ in what comes before.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "thinwire/models/model.h"

namespace thinwire::models {

// Layer norm over the last dimension, with a weight [size of it] and no bias; eps 1e-5 as torch's.
at::Tensor norm(const at::Tensor& x, const at::Tensor& weight);

// x_BTW to logits_BTV: a norm, then one product with `matrix` [vocabulary, width].
//   head.norm [width]; head.linear [vocabulary, width] unless tied
class Head : public Unit {
 public:
  // A defined `tied` is the embedding's matrix: used here, listed there.
  Head(int64_t vocabulary, int64_t width, Seed seed, const at::Tensor& tied);
  at::Tensor forward(const at::Tensor& x_BTW) override;
  int64_t work(int64_t) const override { return matrix_.numel(); }

 private:
  at::Tensor norm_, matrix_;
};

}  // namespace thinwire::models
