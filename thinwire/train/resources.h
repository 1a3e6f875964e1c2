// What a run needs of this machine, before it starts: memory and threads, against what there is.
#pragma once

#include <cstdint>

#include "thinwire/train/recipe.h"

namespace thinwire::train {

struct Resources {
  double bytes = 0;
  int64_t threads = 0;
};

// Of `ranks` ranks on one machine, at least: weights, gradients, the rule's moments, what the strategy keeps beside
// them, and the activations of a step. Buffers in flight and what libraries take come on top.
Resources needed(const Recipe& recipe, int64_t ranks);

// Of this machine, or of the part of it that this process may use (cgroups, ulimit -u and -v).
Resources available();

// BadInput with both numbers where the first is more than the second; not with train.force.
void check_resources(const Recipe& recipe, int64_t ranks);

}  // namespace thinwire::train
