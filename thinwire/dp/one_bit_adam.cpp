#include "thinwire/dp/one_bit_adam.h"

#include <cmath>

namespace thinwire::dp {

OneBitAdam::OneBitAdam(const optim::Flat& weights, Groups groups, const OneBitOptions& options,
                       const optim::OptimOptions& optim)
    : OneBit(weights, std::move(groups), options, optim, /*carry_padding=*/false), spans_(optim::spans(layout_)) {}

kernels::AdamwStep OneBitAdam::adamw_step(const optim::Update& u, int group) const {
  const auto [b1, b2] = optim_.betas;
  const double lr = u.lr[group], wd = layout_.groups[group].weight_decay * optim_.weight_decay;
  return {.beta1 = static_cast<float>(b1),
          .one_minus_beta1 = static_cast<float>(1 - b1),
          .beta2 = static_cast<float>(b2),
          .one_minus_beta2 = static_cast<float>(1 - b2),
          .decay = static_cast<float>(1 - lr * wd),
          .rate = static_cast<float>(lr / bias_correction1(u.t)),
          .root = static_cast<float>(1 / std::sqrt(bias_correction2(u.t))),
          .eps = static_cast<float>(optim_.eps)};
}

void OneBitAdam::warm_up(const optim::Update& u) {
  for (const auto& [at, n, group] : spans_)
    kernels::adamw(u.next.mutable_data_ptr<float>() + at, u.x.const_data_ptr<float>() + at,
                   u.grad.const_data_ptr<float>() + at, m_.mutable_data_ptr<float>() + at,
                   v_.mutable_data_ptr<float>() + at, n, adamw_step(u, group));
}

void OneBitAdam::compressed(const optim::Update& u) {
  const double b1 = optim_.betas[0];
  kernels::momentum(m_.mutable_data_ptr<float>(), u.grad.const_data_ptr<float>(), layout_.numel, static_cast<float>(b1),
                    static_cast<float>(1 - b1));
  compressed_mean_(m_);
  for (const auto& [at, n, group] : spans_)
    kernels::frozen_adamw(u.next.mutable_data_ptr<float>() + at, u.x.const_data_ptr<float>() + at,
                          m_.mutable_data_ptr<float>() + at, v_.const_data_ptr<float>() + at, n, !deepspeed_, reach_,
                          adamw_step(u, group));
}

}  // namespace thinwire::dp
