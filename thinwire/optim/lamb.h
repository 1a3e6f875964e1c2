// LAMB (1904.00962): Adam's direction, and for every tensor a step in proportion to the tensor's own size.
//
//   u = m / (sqrt(v) + eps) + wd x;   c = clamp(||x|| / ||u||, trust), 1 where a norm is 0;   x -= lr c u
//
// With bias correction lr is multiplied by sqrt(1 - beta2^t) / (1 - beta1^t); c comes from the uncorrected u.
#pragma once

#include <array>

#include "thinwire/optim/layout.h"
#include "thinwire/optim/rule.h"

namespace thinwire::optim {

struct LambOptions {
  std::array<double, 2> betas = {0.9, 0.95};  // [0, 1)
  double eps = 1e-8;                          // > 0
  double weight_decay = 0.1;                  // of matrices
  bool bias_correction = true;
  std::array<double, 2> trust = {0.01, 10};  // least and most c
};

// c for squared norms of x and u.
double trust_ratio(double squares_x, double squares_u, const std::array<double, 2>& trust);

// Memory: m and v. Two passes over memory. `over_shards` sums norms where tensors are sharded.
class Lamb final : public Rule {
 public:
  Lamb(const Layout& layout, const LambOptions& options, OverShards over_shards = {});
  void apply(const Update& update) override;
  State state() override;
  void load(const State& state) override;

 private:
  const Layout layout_;
  const LambOptions options_;
  const OverShards over_shards_;
  at::Tensor m_, v_;
  at::Tensor norms_;  // squared, of x and u, by tensor; scratch
};

}  // namespace thinwire::optim
