// The timeline of a run as a picture: for each replica (or stage of one) a lane for computing and waiting, and below it
// one for what it has on the wire to other replicas. All runs of a report are drawn to one scale.
#pragma once

#include <string>
#include <vector>

#include "thinwire/report/chart.h"
#include "thinwire/train/run_record.h"

namespace thinwire::report {

// Shares of the seconds drawn, means over the ranks.
struct TimelineSummary {
  double steps = 0;    // that ended
  double waiting = 0;  // share of the time
  double wire = 0;     // share in which something was in flight
  double hidden = 0;   // share of that in which no rank waited
};
TimelineSummary summary(const train::TimelineRecord& timeline, double seconds);

// How many seconds to draw: what all of them have, but enough of the longest to see its rounds.
double common_seconds(const std::vector<const train::TimelineRecord*>& timelines);

std::string timeline_svg(const train::TimelineRecord& timeline, const std::string& title, double seconds, Size size);
double timeline_height(const train::TimelineRecord& timeline);

using Spans = std::vector<train::TimelineRecord::Span>;
// Sorted, cut off at `end`, and joined where less than `gap` lies between two; bytes add up.
Spans joined(Spans spans, double end, double gap);
double overlap(const Spans& a, const Spans& b);  // seconds in both; each sorted and without overlaps of its own

}  // namespace thinwire::report
