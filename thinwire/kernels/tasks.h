// Divides a long vector into tasks of kTask elements and runs them on the calling rank's threads. (at::parallel_for is
// a plain loop in code that was compiled without -fopenmp; the results are the same.) Tasks are the same whatever the
// number of threads, and sums are added in their order: that is why results do not depend on it.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/reduce.h"

namespace thinwire::kernels {

// f(begin, end) for every task of [0, n); each element once. f runs on several threads at the same time, and must write
// to its own elements only. Blocks until all are done; what f throws is thrown here.
template <class F>
void for_tasks(int64_t n, F&& f) {
  const int64_t tasks = (n + kTask - 1) / kTask;
  at::parallel_for(0, tasks, 1, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) f(t * kTask, std::min(n, (t + 1) * kTask));
  });
}

// The same, adding up what f returns (a double) in the order of the tasks, whatever order they ran in.
template <class F>
double sum_tasks(int64_t n, F&& f) {
  const int64_t tasks = (n + kTask - 1) / kTask;
  if (tasks <= 1) return n > 0 ? f(0, n) : 0.0;
  std::vector<double> sums(tasks);
  for_tasks(n, [&](int64_t begin, int64_t end) { sums[begin / kTask] = f(begin, end); });
  double total = 0;
  for (double s : sums) total += s;
  return total;
}

// The smallest position that f found wrong, for encoders that look for numbers that are not finite: f(begin, end)
// returns one relative to begin, or -1. -1 if there is none. All tasks run, so the result does not depend on threads.
template <class F>
int64_t first_of_tasks(int64_t n, F&& f) {
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> first = none;
  for_tasks(n, [&](int64_t begin, int64_t end) {
    const int64_t found = f(begin, end);
    int64_t before = first;
    while (found >= 0 && begin + found < before && !first.compare_exchange_weak(before, begin + found)) {
    }
  });
  return first == none ? -1 : first.load();
}

// Sum of squares in eight interleaved fp64 lanes: element i of a task is added to lane i mod 8, and the lanes are added
// in a tree at the end. A fixed order that vector units of 2, 4 or 8 numbers can all follow, so clones give equal bits.
// add() may be called again where the numbers so far were a multiple of 8.
struct Lanes {
  double sum[8] = {};
  THINWIRE_INLINE void add(const float* values, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
      for (int j = 0; j < 8; ++j) sum[j] += static_cast<double>(values[i + j]) * static_cast<double>(values[i + j]);
    for (int j = 0; i < n; ++i, ++j) sum[j] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  double total() const { return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7])); }
};

}  // namespace thinwire::kernels
