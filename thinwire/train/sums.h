// Numbers that each rank knows of itself, summed over a group of them.
#pragma once

#include <vector>

#include "thinwire/comm/group.h"

namespace thinwire::train {

// Collective, blocking; counted as control.
std::vector<double> sums_over(comm::Group& group, const std::vector<double>& mine);
std::vector<double> means_over(comm::Group& group, const std::vector<double>& mine);

}  // namespace thinwire::train
