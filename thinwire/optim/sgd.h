// SGD with momentum and coupled weight decay, equal to torch.optim.SGD:
//
//   d = g + wd x;   m = mu m + d;   x = x - lr m
//
// One pass over memory (kernels/sgd.h). Memory: m, as long as the weights, where mu > 0.
#pragma once

#include "thinwire/optim/layout.h"
#include "thinwire/optim/rule.h"

namespace thinwire::optim {

struct SgdOptions {
  double momentum = 0.9;    // mu, [0, 1)
  double weight_decay = 0;  // wd, of matrices, added to the gradient
};

class Sgd final : public Rule {
 public:
  Sgd(const Layout& layout, const SgdOptions& options);
  void apply(const Update& update) override;
  State state() override;
  void load(const State& state) override;

 private:
  const std::vector<Span> spans_;
  const std::vector<ParameterGroup> groups_;
  const SgdOptions options_;
  at::Tensor m_;  // undefined without momentum
};

}  // namespace thinwire::optim
