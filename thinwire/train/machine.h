// The machine a run is on, for records and reports.
#pragma once

#include <string>

namespace thinwire::train {

struct Machine {
  int cores = 0;
  std::string cpu;    // as the system names it; empty if it does not
  std::string torch;  // version
};
Machine this_machine();

}  // namespace thinwire::train
