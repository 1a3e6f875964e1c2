// 1-bit LAMB (2104.06069). Warm-up is LAMB on the mean gradient, and every tensor remembers its smoothed trust ratio
// cbar. At the freeze every tensor gets a scale s that evens out the sizes of the momenta, so that one bit per number
// serves them all. Afterwards, per tensor:
//
//   m_i   = (beta1 m + (1-beta1) g_i) s;   m = mean_i m_i / s     one exchange for the whole model, one bit per number
//   ghat  = (m - beta1 m_last) / (1-beta1);   vfresh = beta2 vfresh + (1-beta2) ghat^2
//   r     = max (sqrt(v) + eps) / (sqrt(vfresh) + eps), how much smaller gradients have become since the freeze,
//           damped by weight decay's share of the step, within `factor` and within 10 % of the r before
//   x    -= lr cbar r u,   u = m / (sqrt(v) + eps) + wd x
//
// m, vfresh and x are equal on all replicas, bit for bit, after every step.
#pragma once

#include <array>

#include "thinwire/base/errors.h"
#include "thinwire/dp/one_bit.h"
#include "thinwire/kernels/lamb.h"

namespace thinwire::dp {

struct LambFactor {
  std::array<double, 2> factor = {0.5, 4};  // least and most r
};
template <class F>
void fields(F&& f, LambFactor& o) {
  f("factor", o.factor, between(0, 1e3), "least and most that a tensor's step changes by after the freeze (r)");
  if (o.factor[0] > o.factor[1])
    throw BadInput("strategy.factor wants the smaller number first, got {} and {}", o.factor[0], o.factor[1]);
}

// Norms and scales are by tensor, of the part of it that this rank holds; see one_bit.h for the rest.
class OneBitLamb final : public OneBit {
 public:
  OneBitLamb(const optim::Flat& weights, Groups groups, const OneBitOptions& options, const LambFactor& factor,
             const optim::OptimOptions& optim);
  State state() override;
  void load(const State& state) override;

  // r from the norms of one tensor and the r before. A pure function.
  static double damped_ratio(const kernels::FrozenNorms& norms, double weight_decay, double before,
                             const LambFactor& factor = {});

 private:
  void warm_up(const optim::Update& u) override;
  void freeze(const optim::Update& u) override;
  void compressed(const optim::Update& u) override;
  kernels::LambStep lamb_step(const optim::Piece& piece) const;
  double rate(const optim::Update& u, int group) const;

  const LambFactor factor_;
  at::Tensor last_, fresh_;               // m before the exchange; vfresh
  at::Tensor cbar_, weight_, ratio_, s_;  // fp64, by tensor: sum and weight of cbar, r, s
  at::Tensor norms_, largest_, trust_;    // scratch, by tensor
};

}  // namespace thinwire::dp
