// Makes the parameters of a model views of one flat fp32 vector, and their gradients views of another.
//
// So one kernel updates all parameters, and an exchange sends them without copying. Autograd does not notice writes to
// the flat vector between a forward and its backward: only a step may write it. Backward accumulates into `grad`;
// the trainer calls zero_grad() before the next one. Used by one thread, but for grad_ready().
//
// A model may compute in another type (bf16). Its parameters and their gradients are then views of two flat vectors of
// that type; `x` and `grad` stay fp32, so that updates smaller than a bf16 can say are not lost. refresh() and
// grad_ready() carry numbers between the two; where the model computes in fp32 they do nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "thinwire/optim/layout.h"

namespace thinwire::optim {

// What is known of the parameters beside their numbers; each list may be empty.
struct Labels {
  std::vector<std::string> names = {};  // for messages
  std::vector<int64_t> matrices = {};   // hidden layers' weight matrices in each, stacked by rows: 1, or 3 for q, k, v
  std::vector<bool> duplicates = {};    // Piece::duplicate
};

class Flat {
 public:
  // Parameters by unit, in registration order, each once, fp32. Their values are copied into `x`, and the parameters
  // become views of it: they must not be replaced or resized afterwards. c10::Error if one is listed again.
  explicit Flat(const std::vector<std::vector<at::Tensor>>& units, Labels labels = {},
                at::ScalarType compute = at::kFloat);

  // From now on the model computes with `weights`, which has x's length and must live as long as it does: another
  // version, until the next bind().
  void bind(const at::Tensor& weights);
  // After a write to x (a step, a load): the model computes with it.
  void refresh();

  void zero_grad();
  // The gradient of this piece of the layout is complete: `grad` has it, too. From backward hooks.
  void grad_ready(int piece);

  const Layout& layout() const { return layout_; }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  at::Tensor x, grad;

 private:
  void view_as(const at::Tensor& weights);

  Layout layout_;
  std::vector<at::Tensor> parameters_;
  at::Tensor low_, low_grad_;  // what the model computes with, where that is not fp32
};

// XXH3 of the parameters in flat weights, in registration order, padding left out; 16 hexadecimal digits.
std::string weights_hash(const Layout& layout, const at::Tensor& x);

}  // namespace thinwire::optim
