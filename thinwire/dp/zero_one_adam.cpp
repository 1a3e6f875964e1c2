#include "thinwire/dp/zero_one_adam.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "thinwire/kernels/adamw.h"
#include "thinwire/kernels/reduce.h"
#include "thinwire/kernels/zero_one.h"

namespace thinwire::dp {
namespace {

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
  const bool renew = wants_gradient_mean(u.t);
  if (!renew) {
    compressed_mean_(u.grad);
    clip(u.grad, std::sqrt(whole_squares(u.grad)));
  }
  for (const auto& span : spans_) {
    const auto step = optim::adamw_step(moments_, {}, u.lr[span.group], weight_decay(span.group));
    if (renew) {
      kernels::adamw(u.next, u.x, u.grad, m_, v_, span.range(), step);
    } else {
      kernels::momentum(m_, u.grad, span.range(), moments_);
      kernels::frozen_adamw(u.next, u.x, m_, v_, span.range(), habits_.masks, reach_, step);
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
  const kernels::ZeroOneBuffers buffers{u.next, u.x, u.grad, m_, v_, moved_, synced_};
  for (const auto& span : spans_)
    kernels::local_step(buffers, span.range(),
                        {.moments = moments_,
                         .lr = static_cast<float>(u.lr[span.group]),
                         .weight_decay = static_cast<float>(weight_decay(span.group)),
                         .reach = reach_,
                         .masked = habits_.masks});
  for (size_t group = 0; group < rates_.size(); ++group) rates_[group] += u.lr[group];
  if (u.t % interval_ == 0 && moved_since()) exchange(u.next);
  if (++since_freeze_ % zero_one_.local_step_scaler == 0)
    interval_ = std::min(2 * interval_, zero_one_.local_step_clipper);
}

void ZeroOneAdam::exchange(at::Tensor x) {
  kernels::scale_by_root(moved_, v_, moments_.eps);
  compressed_mean_(moved_);
  const kernels::ZeroOneBuffers buffers{x, {}, {}, m_, v_, moved_, synced_};
  for (const auto& span : spans_)
    kernels::sync_step(buffers, span.range(), static_cast<float>(rates_[span.group]), moments_.eps, reach_,
                       habits_.masks);
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
  gap_ = get_int(state, "gap", 1);
  renewals_ = get_int(state, "renewals", 0, zero_one_.var_update_scaler - 1);
  interval_ = get_int(state, "interval", 1, zero_one_.local_step_clipper);
  since_freeze_ = get_int(state, "since_freeze", 0);
  for (size_t group = 0; group < rates_.size(); ++group)
    rates_[group] = get_double(state, "rates." + std::to_string(group), 0);
}

}  // namespace thinwire::dp
