// NAdamW: AdamW that steps along the momentum of the next update (Dozat 2016); equal to torch.optim.NAdam with
// decoupled_weight_decay.
//
//   mu_t = b1 (1 - .5 .96^(t psi));   Pi_t = mu_1 .. mu_t              from b1/2 towards b1
//   m = b1 m + (1-b1) g;   v = b2 v + (1-b2) g^2;   q = sqrt(v / (1-b2^t)) + eps
//   x = x (1 - lr wd) - lr ((1-mu_t) / (1-Pi_t) g + mu_{t+1} / (1-Pi_{t+1}) m) / q
#pragma once

#include <array>

#include "thinwire/kernels/nadamw.h"
#include "thinwire/optim/layout.h"
#include "thinwire/optim/rule.h"

namespace thinwire::optim {

struct NadamwOptions {
  std::array<double, 2> betas = {0.99, 0.999};  // [0, 1)
  double eps = 1e-8;                            // > 0
  double weight_decay = 0.1;                    // of matrices, times lr
  double momentum_decay = 0.004;                // psi, > 0: how fast mu grows; inf: it is b1 from the start
};

// The two rates of a step, which depend on all steps before it: Pi is a product over them.
class NadamwRates {
 public:
  explicit NadamwRates(const NadamwOptions& options) : options_(options) {}
  void advance(int64_t t) { pi_ *= mu(t); }  // t = 1, 2, ..., or on from a loaded state
  // Of the step advanced to last, for weights with this learning rate and `decay` times the weight decay.
  kernels::NadamwStep step(int64_t t, double lr, double decay) const;
  void put(State& state) const;
  void get(const State& state);

 private:
  double mu(int64_t t) const;

  const NadamwOptions options_;
  double pi_ = 1;  // Pi_t
};

class Nadamw final : public Rule {
 public:
  Nadamw(const Layout& layout, const NadamwOptions& options);
  void apply(const Update& update) override;  // t = 1, 2, .. without gaps, or on from a loaded state
  State state() override;
  void load(const State& state) override;

 private:
  const std::vector<Span> spans_;
  const std::vector<ParameterGroup> groups_;
  NadamwRates rates_;
  at::Tensor m_, v_;
};

}  // namespace thinwire::optim
