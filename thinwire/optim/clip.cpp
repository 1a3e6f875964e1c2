#include "thinwire/optim/clip.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include <cmath>

namespace thinwire::optim {

Clip::Clip(RulePtr inner, const Layout& layout, double norm, OverShards over_replica)
    : inner_(std::move(inner)), layout_(layout), norm_(norm), over_replica_(std::move(over_replica)) {
  TORCH_CHECK(norm > 0, "[optim.clip] the norm must be above 0, got ", norm);
}

void Clip::apply(const Update& u) {
  at::Tensor squares = u.grad_squares;
  if (!squares.defined()) {
    squares = at::scalar_tensor(sum_squares(layout_, u.grad), at::kDouble);
    if (over_replica_) over_replica_(squares, Over::sum);
  }
  const float norm = static_cast<float>(std::sqrt(squares.item<double>()));
  if (norm > norm_) u.grad.mul_(static_cast<float>(norm_) / (norm + 1e-6f));
  inner_->apply(u);
}

}  // namespace thinwire::optim
