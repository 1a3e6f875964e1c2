// The charts of a report: loss over steps, seconds and bytes, and the distance between replicas.
#pragma once

#include <optional>
#include <vector>

#include "thinwire/report/chart.h"
#include "thinwire/train/run_record.h"

namespace thinwire::report {

enum class Over { steps, seconds, bytes };

// Lines: training loss, the mean over a twentieth of the run, or five steps. Dots: held-out loss. Bytes are on a log
// axis where runs differ by more than a factor of 5. A loss falls steeply at first and then slowly: what is above all
// of the last four fifths of every run is cut off.
Chart loss_chart(const std::vector<train::RunRecord>& runs, Over over);

// Nothing if no run was evaluated under way with replicas that differed.
std::optional<Chart> distance_chart(const std::vector<train::RunRecord>& runs);

}  // namespace thinwire::report
