#include "thinwire/dp/landing.h"

#include <cmath>

#include "thinwire/kernels/reduce.h"

namespace thinwire::dp {

double Landing::error(comm::Group& group, const optim::SumOverShards& sum_over_shards) {
  for (const at::Tensor& t : {then, now, written})
    group.all_reduce_(t, comm::Reduce::mean, comm::Kind::control)->wait();
  double missed = kernels::sum_squared_differences(now, written);
  double moved = kernels::sum_squared_differences(now, then);
  if (sum_over_shards) missed = sum_over_shards(missed), moved = sum_over_shards(moved);
  return moved == 0 ? 0 : std::sqrt(missed / moved);
}

}  // namespace thinwire::dp
