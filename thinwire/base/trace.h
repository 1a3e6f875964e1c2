// When a rank did what, for a picture: the newest intervals of each kind, in this rank's monotonic time.
//
// Thread-safe; adding one costs a lock and no allocation once it is full. Recording changes no result.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "thinwire/base/clock.h"

namespace thinwire {

enum class TraceKind {
  step,      // of training
  wait,      // for the wire
  transfer,  // an exchange in flight; its number: bytes
  forward,   // of a stage, and so on; its number: which minibatch
  backward,
  weights,
  update,
};
inline constexpr int kTraceKinds = 7;

struct Interval {
  Clock::time_point begin, end;
  int64_t number = 0;
};

class Trace {
 public:
  // Keeps the last `newest` intervals of each kind.
  explicit Trace(size_t newest) : newest_(newest) {}

  // One interval that is over; of a full kind the oldest is dropped.
  void add(TraceKind what, Clock::time_point begin, Clock::time_point end, int64_t number = 0) {
    std::lock_guard lock(mutex_);
    auto& kept = kept_[static_cast<int>(what)];
    if (kept.size() == newest_) kept.pop_front();
    kept.push_back({begin, end, number});
  }

  // A copy, in the order of add().
  std::vector<Interval> of(TraceKind what) const {
    std::lock_guard lock(mutex_);
    const auto& kept = kept_[static_cast<int>(what)];
    return {kept.begin(), kept.end()};
  }

 private:
  const size_t newest_;
  mutable std::mutex mutex_;
  std::array<std::deque<Interval>, kTraceKinds> kept_;
};
using TracePtr = std::shared_ptr<Trace>;

}  // namespace thinwire
