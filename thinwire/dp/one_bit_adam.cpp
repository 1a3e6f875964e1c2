#include "thinwire/dp/one_bit_adam.h"

namespace thinwire::dp {

OneBitAdam::OneBitAdam(const optim::Flat& weights, Groups groups, const OneBitOptions& options,
                       const optim::OptimOptions& optim)
    : OneBit(weights, std::move(groups), options, optim, /*carry_padding=*/false), spans_(optim::spans(layout_)) {}

kernels::AdamwStep OneBitAdam::step_of(const optim::Update& u, int group) const {
  return optim::adamw_step(moments_, corrections(u.t), u.lr[group], weight_decay(group));
}

void OneBitAdam::warm_up(const optim::Update& u) {
  for (const auto& span : spans_) kernels::adamw(u.next, u.x, u.grad, m_, v_, span.range(), step_of(u, span.group));
}

void OneBitAdam::compressed(const optim::Update& u) {
  kernels::momentum(m_, u.grad, kernels::whole(m_), moments_);
  compressed_mean_(m_);
  for (const auto& span : spans_)
    kernels::frozen_adamw(u.next, u.x, m_, v_, span.range(), habits_.masks, reach_, step_of(u, span.group));
}

}  // namespace thinwire::dp
