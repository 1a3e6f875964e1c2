// Makes the parameters of a model views of one flat fp32 vector, and their gradients views of another.
//
// Autograd does not notice writes to the flat vector between a forward and its backward: only a step may write it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "thinwire/optim/layout.h"

namespace thinwire::optim {

class Flat {
 public:
  // Parameters by unit, in registration order, each once. Their values move into `x`.
  // `names` of the parameters are for messages.
  explicit Flat(const std::vector<std::vector<at::Tensor>>& units, std::vector<std::string> names = {});

  // From now on the parameters are views of `weights`, which has x's length: another version, for a while.
  void bind(const at::Tensor& weights);

  const Layout& layout() const { return layout_; }
  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  at::Tensor x, grad;

 private:
  Layout layout_;
  std::vector<at::Tensor> parameters_;
};

// XXH3 of the parameters in flat weights, in registration order, padding left out; 16 hexadecimal digits.
std::string weights_hash(const Layout& layout, const at::Tensor& x);

}  // namespace thinwire::optim
