// LARS (1708.03888), layer-wise adaptive rates for large batches: SGD with momentum, and for every tensor a learning
// rate in proportion to ||x|| / ||g||.
//
//   lambda = eta ||x|| / (||g|| + wd ||x||), 1 where a norm is 0;   m = mu m + lr lambda (g + wd x);   x -= m
#pragma once

#include "thinwire/optim/layout.h"
#include "thinwire/optim/rule.h"

namespace thinwire::optim {

struct LarsOptions {
  double momentum = 0.9;      // mu, [0, 1)
  double weight_decay = 0.1;  // of matrices
  double eta = 0.001;         // > 0
};

// Memory: m. `over_shards` sums norms where tensors are sharded.
class Lars final : public Rule {
 public:
  Lars(const Layout& layout, const LarsOptions& options, OverShards over_shards = {});
  void apply(const Update& update) override;
  State state() override;
  void load(const State& state) override;

 private:
  const Layout layout_;
  const LarsOptions options_;
  const OverShards over_shards_;
  at::Tensor m_;
  at::Tensor norms_;  // squared, of x and g, by tensor; scratch
};

}  // namespace thinwire::optim
