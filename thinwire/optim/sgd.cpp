#include "thinwire/optim/sgd.h"

#include <ATen/ops/zeros.h>

#include "thinwire/kernels/sgd.h"

namespace thinwire::optim {

Sgd::Sgd(const Layout& layout, const SgdOptions& options)
    : spans_(spans(layout)), groups_(layout.groups), options_(options) {
  if (options.momentum > 0) m_ = at::zeros({layout.numel}, layout.options);
}

void Sgd::apply(const Update& u) {
  for (const Span& span : spans_)
    kernels::sgd(u.next, u.x, u.grad, m_, span.range(),
                 {.lr = static_cast<float>(u.lr[span.group]),
                  .momentum = static_cast<float>(options_.momentum),
                  .weight_decay = static_cast<float>(groups_[span.group].weight_decay * options_.weight_decay)});
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
