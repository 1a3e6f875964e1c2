// How well a late rule guesses where the replicas will be when its average lands.
//
// then: the mean of the weights when they left; now: their mean just before the answer landed; written: the mean of
// what the rule wrote. The error is ||now - written|| / ||now - then||, 0 where nothing moved: 0 is a perfect guess,
// 1 is as good as throwing away what was learnt meanwhile. (Redrawn slices: what other landings did to the same numbers
// meanwhile is added to `then`, so that only learning counts as movement.)
#pragma once

#include <ATen/core/Tensor.h>

#include "thinwire/comm/group.h"
#include "thinwire/optim/rule.h"

namespace thinwire::dp {

struct Landing {
  at::Tensor then, now, written;  // this replica's, copies

  // Collective. The three become their means.
  double error(comm::Group& group, const optim::SumOverShards& sum_over_shards);
};

}  // namespace thinwire::dp
