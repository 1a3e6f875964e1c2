// What the report says in sentences. Everything here is HTML, escaped.
#pragma once

#include <string>
#include <vector>

#include "thinwire/train/run_record.h"

namespace thinwire::report {

// What was run and what came out, in one sentence; and who waited for the wire how much, in another.
struct Headline {
  std::string title, lede;
};
Headline headline_html(const std::vector<train::RunRecord>& runs);
// The strategy of a run in two plain sentences; empty for one that has no words yet.
std::string strategy_html(const train::RunRecord& run);
// What was run: rows of a <dl>. Where runs differ, all that there is, in their order.
std::string facts_html(const std::vector<train::RunRecord>& runs);

}  // namespace thinwire::report
