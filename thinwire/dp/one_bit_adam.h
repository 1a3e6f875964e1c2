// 1-bit Adam (2102.02888). With the frozen v of the end of warm-up:
//
//   m_i = beta1 m + (1-beta1) g_i      with the local gradient
//   m   = mean_i m_i                   one bit per number, with error feedback on both sides
//   x  -= lr (m / (sqrt(v) + eps) + wd x)
//
// Warm-up is AdamW on the mean gradient. m and x are equal on all replicas, bit for bit, after every step.
#pragma once

#include "thinwire/dp/one_bit.h"
#include "thinwire/kernels/adamw.h"

namespace thinwire::dp {

// Cost of a step after warm-up: one compressed mean of the whole momentum, two latencies, waited for.
class OneBitAdam final : public OneBit {
 public:
  OneBitAdam(const optim::Flat& weights, Groups groups, const OneBitOptions& options, const optim::OptimOptions& optim);

 private:
  void warm_up(const optim::Update& u) override;
  void compressed(const optim::Update& u) override;
  kernels::AdamwStep step_of(const optim::Update& u, int group) const;

  const std::vector<optim::Span> spans_;
};

}  // namespace thinwire::dp
