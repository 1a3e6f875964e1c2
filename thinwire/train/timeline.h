// timeline.json: the last few rounds of a run as intervals, for the picture in the report.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "thinwire/base/trace.h"
#include "thinwire/comm/world.h"

namespace thinwire::train {

// All traces, by rank, in rank 0's time; on rank 0, elsewhere nothing. Collective.
std::vector<TracePtr> gather_traces(const comm::World& world, const Trace& own);

// {"from_step", "to_step", "ranks": [{"steps": [[begin, end], ..], "waits": [..], "transfers": [[begin, end, bytes],
// ..]}]} in seconds from the begin of rank 0's step from_step to the end of its step to_step = last_step; what reaches
// beyond is cut off there. `steps` is how many to show, fewer if the traces hold fewer.
nlohmann::ordered_json timeline(const std::vector<TracePtr>& ranks, int64_t last_step, int64_t steps);

}  // namespace thinwire::train
