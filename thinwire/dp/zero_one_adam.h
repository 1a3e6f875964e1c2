// 0/1 Adam (2202.06009): the second moment is renewed ever more rarely, and once it is frozen replicas step alone and
// exchange ever more rarely, each time in one bit per number. With t counting steps:
//
//   up to the freeze    t mod gap = 0: g = mean_i g_i, v = beta2 v + (1-beta2) g^2; after `var_update_scaler` of these
//                       gap doubles. Otherwise g = the mean of one bit per number, v stays.
//                       m = beta1 m + (1-beta1) g;   x -= lr (m / (sqrt(v) + eps) + wd x)
//   at the freeze       all errors are forgotten: their unit changes.   x_s = x, a = 0, S = 0, I = 1
//   afterwards          m_i = beta1 m_i + (1-beta1) g_i;   a_i -= lr (m_i / (sqrt(v) + eps) + wd x_i);
//                       x_i = x_s + a_i;   S += lr
//                       t mod I = 0: h = the mean, one bit per number, of a_i (sqrt(v) + eps);
//                       x_i = x_s += h / (sqrt(v) + eps);   m_i = -h / S;   a_i = S = 0
//                       every `local_step_scaler` steps I doubles, up to `local_step_clipper`
//
// There is no bias correction. Weights to evaluate between two exchanges: x_s.
#pragma once

#include "thinwire/dp/one_bit.h"

namespace thinwire::dp {

// [strategy] of zero_one_adam, beside one_bit.h's; names and defaults are the paper's code's. All >= 1.
struct ZeroOneOptions {
  int64_t var_update_scaler = 16;     // renewals of v until they become half as often
  int64_t local_step_scaler = 32678;  // the published default, typed so upstream
  int64_t local_step_clipper = 16;    // most steps between two exchanges
};

template <class F>
void fields(F&& f, ZeroOneOptions& o) {
  f("var_update_scaler", o.var_update_scaler, at_least(1),
    "renewals of the second moment until they become half as often");
  f("local_step_scaler", o.local_step_scaler, at_least(1),
    "steps after the freeze until exchanges become half as often");
  f("local_step_clipper", o.local_step_clipper, at_least(1), "most steps between two exchanges");
}

class ZeroOneAdam final : public OneBit {
 public:
  ZeroOneAdam(const optim::Flat& weights, Groups groups, const OneBitOptions& options, const ZeroOneOptions& zero_one,
              const optim::OptimOptions& optim);
  void finish(at::Tensor x) override;
  at::Tensor consensus(at::Tensor x) override { return frozen() ? synced_ : x; }
  State state() override;
  void load(const State& state) override;

 private:
  bool wants_gradient_mean(int64_t t) const override { return !frozen() && t % gap_ == 0; }
  bool clips_together() const override { return false; }
  void warm_up(const optim::Update& u) override;
  void freeze(const optim::Update& u) override;
  void compressed(const optim::Update& u) override;
  void exchange(at::Tensor x);
  bool moved_since() const;

  const ZeroOneOptions zero_one_;
  const std::vector<optim::Span> spans_;
  at::Tensor moved_, synced_;                // a_i, x_s
  int64_t gap_ = 1, renewals_ = 0;           // steps between renewals of v, and how many at this gap
  int64_t interval_ = 1, since_freeze_ = 0;  // I, steps
  std::vector<double> rates_;                // S, by group
};

}  // namespace thinwire::dp
