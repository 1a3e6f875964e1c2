// Quick figures about this machine, for `thinwire bench` and `thinwire doctor`: seconds to get, good to a tenth or so.
// What the project claims about its speed is in benchmarks/; these say whether a machine is in order.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace thinwire::train {

// One pass over vectors that do not fit into caches, on one thread, best of several.
struct KernelFigure {
  std::string name;
  int reads = 0, writes = 0;   // vectors
  double gigabytes_per_s = 0;  // of what is read and written
  double share_of_triad = 0;   // of a[i] = b[i] + s c[i] in the same run
};
// An all-reduce over ranks that are threads. Mean over several.
struct CommFigure {
  int ranks = 0;
  int64_t bytes = 0;  // of the vector
  double seconds = 0;
  double gigabytes_per_s = 0;  // sent by a rank
  double share_of_copy = 0;    // of copying memory in the same run
};
// The same over an emulated link, against what that link would take.
struct LinkFigure {
  std::string link;
  int64_t bytes = 0;
  double asked_s = 0, obtained_s = 0;
};

// Each calls `report` for every figure as it is known, and ends early where `report` returns false.
bool measure_kernels(const std::function<bool(const KernelFigure&)>& report);
bool measure_comm(const std::function<bool(const CommFigure&)>& report);
bool measure_links(const std::function<bool(const LinkFigure&)>& report);

// Which version of the kernels this CPU runs: "avx512f", "avx2", "default", or "plain" where there is only one.
std::string kernel_clone();

// How well this machine keeps time, measured in about 50 ms.
struct TimeKeeping {
  double tick_s = 0;   // smallest step of the clock
  double late_s = 0;   // how late a sleep of 1 ms ends: the median
  double worst_s = 0;  // and the worst
};
TimeKeeping measure_time_keeping();

}  // namespace thinwire::train
