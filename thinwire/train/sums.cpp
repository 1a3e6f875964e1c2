#include "thinwire/train/sums.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>

namespace thinwire::train {

std::vector<double> sums_over(comm::Group& group, const std::vector<double>& mine) {
  at::Tensor values = at::empty({static_cast<int64_t>(mine.size())}, at::kDouble);
  std::ranges::copy(mine, values.mutable_data_ptr<double>());
  group.all_reduce_(values, comm::Reduce::sum, comm::TrafficKind::control)->wait();
  const double* p = values.const_data_ptr<double>();
  return {p, p + mine.size()};
}

std::vector<double> means_over(comm::Group& group, const std::vector<double>& mine) {
  auto values = sums_over(group, mine);
  for (double& value : values) value /= group.size();
  return values;
}

}  // namespace thinwire::train
