// AdamW (1711.05101), equal to torch.optim.AdamW:
//
//   m = b1 m + (1-b1) g;   v = b2 v + (1-b2) g^2
//   x = x (1 - lr wd) - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
//
// One pass over memory (kernels/adamw.h). Memory: m and v, as long as the weights.
#pragma once

#include <array>

#include "thinwire/kernels/adamw.h"
#include "thinwire/optim/layout.h"
#include "thinwire/optim/rule.h"

namespace thinwire::optim {

struct AdamwOptions {
  std::array<double, 2> betas = {0.9, 0.95};  // [0, 1)
  double eps = 1e-8;                          // > 0
  double weight_decay = 0.1;                  // of matrices, times lr
  bool bias_correction = true;
};

// What bias correction divides the moments by: 1 - beta^t, or 1 without it.
struct Corrections {
  double first = 1, second = 1;
};
Corrections corrections(const AdamwOptions& options, int64_t t);
// The update of numbers with this learning rate and weight decay.
kernels::AdamwStep adamw_step(const kernels::Moments& moments, const Corrections& c, double lr, double weight_decay);

// See rule.h for the contract.
class Adamw final : public Rule {
 public:
  Adamw(const Layout& layout, const AdamwOptions& options);
  void apply(const Update& update) override;
  State state() override;
  void load(const State& state) override;

 private:
  const std::vector<Span> spans_;
  const std::vector<ParameterGroup> groups_;
  const AdamwOptions options_;
  at::Tensor m_, v_;
};

}  // namespace thinwire::optim
