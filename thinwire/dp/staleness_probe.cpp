#include "thinwire/dp/staleness_probe.h"

#include <ATen/ops/tensor.h>

#include <cmath>

#include "thinwire/kernels/host_span.h"
#include "thinwire/kernels/reduce.h"

namespace thinwire::dp {

at::Tensor sample(const at::Tensor& x) {
  const int64_t stride = (x.numel() + kSample - 1) / kSample;
  return stride <= 1 ? x.clone() : x.slice(0, 0, x.numel(), stride).contiguous();
}

std::optional<double> StalenessProbe::error() {
  if (!merge_) return {};
  const Merge means = *merge_;
  merge_.reset();
  for (const at::Tensor& t : {means.then, means.now, means.written})
    group_->all_reduce_(t, comm::Reduce::mean, comm::TrafficKind::control)->wait();
  const at::Tensor sums = at::tensor({kernels::sum_squared_differences(means.now, means.written),
                                      kernels::sum_squared_differences(means.now, means.then)},
                                     at::kDouble);
  if (over_shards_) over_shards_(sums, optim::Over::sum);
  const auto values = kernels::host_span<const double>(sums);
  return values[1] == 0 ? 0 : std::sqrt(values[0] / values[1]);
}

}  // namespace thinwire::dp
