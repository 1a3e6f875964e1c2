#include "thinwire/optim/sgd.h"

#include <ATen/ops/zeros.h>

#include "thinwire/kernels/sgd.h"

namespace thinwire::optim {

Sgd::Sgd(const Layout& layout, const SgdOptions& options)
    : spans_(spans(layout)), groups_(layout.groups), options_(options) {
  if (options.momentum > 0) m_ = at::zeros({layout.numel}, at::kFloat);
}

void Sgd::apply(const Update& u) {
  auto* next = u.next.mutable_data_ptr<float>();
  auto* m = m_.defined() ? m_.mutable_data_ptr<float>() : nullptr;
  const auto* x = u.x.const_data_ptr<float>();
  const auto* g = u.grad.const_data_ptr<float>();
  for (const auto& [at, numel, group] : spans_) {
    const kernels::SgdStep step{
        .lr = static_cast<float>(u.lr[group]),
        .momentum = static_cast<float>(options_.momentum),
        .weight_decay = static_cast<float>(groups_[group].weight_decay * options_.weight_decay),
    };
    kernels::sgd(next + at, x + at, g + at, m ? m + at : nullptr, numel, step);
  }
}

State Sgd::state() {
  State state;
  if (m_.defined()) state["m"] = {m_, Scope::per_replica};
  return state;
}

void Sgd::load(const State& state) {
  if (m_.defined()) get(state, "m", m_);
}

}  // namespace thinwire::optim
