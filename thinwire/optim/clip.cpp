#include "thinwire/optim/clip.h"

#include <c10/util/Exception.h>

#include <cmath>

#include "thinwire/kernels/reduce.h"

namespace thinwire::optim {

Clip::Clip(RulePtr inner, double norm, SumOverShards sum_over_shards)
    : inner_(std::move(inner)), norm_(norm), sum_over_shards_(std::move(sum_over_shards)) {
  TORCH_CHECK(norm > 0, "[optim.clip] the norm must be above 0, got ", norm);
}

void Clip::apply(const Update& u) {
  double squares = kernels::sum_squares(u.grad);
  if (sum_over_shards_) squares = sum_over_shards_(squares);
  const float norm = static_cast<float>(std::sqrt(squares));
  if (norm > norm_) u.grad.mul_(static_cast<float>(norm_) / (norm + 1e-6f));
  inner_->apply(u);
}

}  // namespace thinwire::optim
