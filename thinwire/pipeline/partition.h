// Which units of a model go to which stage: a pure function of what the units cost.
//
// Units stay in their order, so a partition is a list of sizes: {2, 3, 2} gives the first stage units 0 and 1. A
// pipeline is as fast as its slowest stage, so that is what is minimised, exactly, by dynamic programming over (first
// unit of the rest, stages left): O(stages units^2) steps. A recipe's word for a partition is `pipeline.cut`.
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

// How many units each stage takes, so that the slowest stage is as fast as can be; of several such partitions, the one
// whose first stages are smallest, so the result depends on the costs alone. Every stage gets at least one unit;
// BadInput if there are fewer units than stages, or no stage.
std::vector<int64_t> partition(std::span<const UnitCost> units, int stages);

// "2,3,2": a partition as a recipe says it.
std::string to_text(const std::vector<int64_t>& partition);
// BadInput that starts with "pipeline.cut" unless it has a positive number for each stage and they add up to the units.
std::vector<int64_t> partition_from_text(std::string_view text, int stages, int64_t units);

}  // namespace thinwire::pipeline
