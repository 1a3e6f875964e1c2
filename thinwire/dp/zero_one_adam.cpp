#include "thinwire/dp/zero_one_adam.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "thinwire/kernels/adamw.h"
#include "thinwire/kernels/reduce.h"
#include "thinwire/kernels/zero_one.h"

namespace thinwire::dp {
namespace {

float* at(const at::Tensor& t, int64_t i) { return t.mutable_data_ptr<float>() + i; }

// By the published rule the step after `freeze` still belongs to warm-up.
OneBitOptions with_one_more(OneBitOptions options) {
  if (!options.freeze.automatic) ++options.freeze.step;
  return options;
}

}  // namespace

ZeroOneAdam::ZeroOneAdam(const optim::Flat& weights, Groups groups, const OneBitOptions& options,
                         const ZeroOneOptions& zero_one, const optim::OptimOptions& optim)
    : OneBit(weights, std::move(groups), with_one_more(options), optim, /*carry_padding=*/false),
      zero_one_(zero_one),
      spans_(optim::spans(layout_)),
      moved_(at::zeros_like(m_)),
      synced_(at::zeros_like(m_)),
      rates_(layout_.groups.size()) {
  check_fields("strategy", zero_one);
}

void ZeroOneAdam::warm_up(const optim::Update& u) {
  const auto [b1, b2] = optim_.betas;
  const bool renew = wants_gradient_mean(u.t);
  if (!renew) {
    compressed_mean_(u.grad);
    clip(u.grad, std::sqrt(whole_squares(u.grad)));
  }
  for (const auto& [begin, n, group] : spans_) {
    const double lr = u.lr[group], wd = layout_.groups[group].weight_decay * optim_.weight_decay;
    kernels::AdamwStep step{.beta1 = static_cast<float>(b1),
                            .one_minus_beta1 = static_cast<float>(1 - b1),
                            .beta2 = static_cast<float>(b2),
                            .one_minus_beta2 = static_cast<float>(1 - b2),
                            .decay = static_cast<float>(1 - lr * wd),
                            .rate = static_cast<float>(lr),
                            .root = 1,
                            .eps = static_cast<float>(optim_.eps)};
    float *next = at(u.next, begin), *m = at(m_, begin), *v = at(v_, begin);
    const float *x = at(u.x, begin), *g = at(u.grad, begin);
    if (renew) {
      kernels::adamw(next, x, g, m, v, n, step);
    } else {
      kernels::momentum(m, g, n, step.beta1, step.one_minus_beta1);
      kernels::frozen_adamw(next, x, m, v, n, !deepspeed_, reach_, step);
    }
  }
  if (!renew || ++renewals_ < zero_one_.var_update_scaler) return;
  renewals_ = 0;
  gap_ *= 2;
}

void ZeroOneAdam::freeze(const optim::Update& u) {
  forget_errors();
  synced_.copy_(u.next);
  moved_.zero_();
}

void ZeroOneAdam::compressed(const optim::Update& u) {
  const double b1 = optim_.betas[0];
  for (const auto& [begin, n, group] : spans_) {
    const double wd = layout_.groups[group].weight_decay * optim_.weight_decay;
    kernels::local_step({at(u.next, begin), at(u.x, begin), at(u.grad, begin), at(m_, begin), at(v_, begin),
                         at(moved_, begin), at(synced_, begin)},
                        n,
                        {.beta1 = static_cast<float>(b1),
                         .one_minus_beta1 = static_cast<float>(1 - b1),
                         .lr = static_cast<float>(u.lr[group]),
                         .weight_decay = static_cast<float>(wd),
                         .eps = static_cast<float>(optim_.eps),
                         .reach = reach_,
                         .masked = !deepspeed_});
  }
  for (size_t group = 0; group < rates_.size(); ++group) rates_[group] += u.lr[group];
  if (u.t % interval_ == 0 && moved_since()) exchange(u.next);
  if (++since_freeze_ % zero_one_.local_step_scaler == 0)
    interval_ = std::min(2 * interval_, zero_one_.local_step_clipper);
}

void ZeroOneAdam::exchange(at::Tensor x) {
  const auto eps = static_cast<float>(optim_.eps);
  kernels::scale_by_root(at(moved_, 0), at(v_, 0), layout_.numel, eps);
  compressed_mean_(moved_);
  for (const auto& [begin, n, group] : spans_) {
    const double s = rates_[group];
    kernels::sync_step(
        {at(x, begin), nullptr, nullptr, at(m_, begin), at(v_, begin), at(moved_, begin), at(synced_, begin)}, n,
        static_cast<float>(s), eps, reach_, !deepspeed_);
  }
  std::ranges::fill(rates_, 0);
}

void ZeroOneAdam::finish(at::Tensor x) {
  if (frozen() && moved_since()) exchange(x);
}

// A step whose learning rate is 0 moves nothing, and -h / S would not be a number.
bool ZeroOneAdam::moved_since() const { return *std::ranges::min_element(rates_) > 0; }

State ZeroOneAdam::state() {
  State state = OneBit::state();
  state["m"].scope = Scope::per_replica;  // between two exchanges
  state["moved"] = {moved_, Scope::per_replica};
  if (frozen()) state["z"] = {synced_, Scope::all_equal};
  put(state, "gap", gap_, Scope::all_equal);
  put(state, "renewals", renewals_, Scope::all_equal);
  put(state, "interval", interval_, Scope::all_equal);
  put(state, "since_freeze", since_freeze_, Scope::all_equal);
  for (size_t group = 0; group < rates_.size(); ++group)
    put(state, "rates." + std::to_string(group), rates_[group], Scope::all_equal);
  return state;
}

void ZeroOneAdam::load(const State& state) {
  OneBit::load(state);
  get(state, "moved", moved_);
  if (frozen()) get(state, "z", synced_);
  gap_ = get_int(state, "gap");
  renewals_ = get_int(state, "renewals");
  interval_ = get_int(state, "interval");
  since_freeze_ = get_int(state, "since_freeze");
  for (size_t group = 0; group < rates_.size(); ++group)
    rates_[group] = get_double(state, "rates." + std::to_string(group));
}

}  // namespace thinwire::dp
