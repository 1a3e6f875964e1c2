// The shortest of several tries: the one that was disturbed least.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>

#include "thinwire/base/clock.h"

namespace thinwire::benchmarks {

inline double best_of(int times, const std::function<void()>& f) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    f();
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

}  // namespace thinwire::benchmarks
