// Where a model is cut into stages: a pure function of what its units cost.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::pipeline {

// Of one minibatch; seconds, or any unit.
struct UnitCost {
  double forward = 0, backward = 0;
};

// What a stage of these units takes a minibatch: a backward computes its forward again, except on the last stage, which
// does both at once.
double stage_cost(std::span<const UnitCost> units, bool last);

// How many units each stage takes, so that the slowest stage is as fast as can be; of several such cuts, the one whose
// first stages are smallest. BadInput if there are fewer units than stages.
std::vector<int64_t> cut(std::span<const UnitCost> units, int stages);

// "2,3,2": a cut as a recipe says it.
std::string to_text(const std::vector<int64_t>& cut);
// BadInput that starts with "pipeline.cut" unless it has a positive number for each stage and they add up to the units.
std::vector<int64_t> cut_from_text(std::string_view text, int stages, int64_t units);

}  // namespace thinwire::pipeline
