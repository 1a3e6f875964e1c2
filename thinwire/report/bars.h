// Where the time went: one bar a run, divided into computing, waiting for the network, and the rest.
#pragma once

#include <string>
#include <vector>

#include "thinwire/report/chart.h"

namespace thinwire::report {

struct TimeBar {
  std::string label;
  double compute_s, exposed_s, other_s;
};

double bars_height(size_t bars);
std::string bars_svg(const std::vector<TimeBar>& bars, const std::string& title, Size size);

}  // namespace thinwire::report
