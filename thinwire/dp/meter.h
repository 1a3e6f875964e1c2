// Where a rank's compute thread spends its time: waiting for the network, and in the update rule. The trainer makes one
// a rank and passes it to strategies and stages; used by one thread.
#pragma once

#include <functional>
#include <memory>

#include "thinwire/base/trace.h"
#include "thinwire/comm/work.h"

namespace thinwire::dp {

class Meter {
 public:
  // Waits; the seconds count as exposed.
  void wait(comm::Work& work) {
    const auto begin = Clock::now();
    work.wait();
    const auto end = Clock::now();
    exposed_s_ += seconds_between(begin, end);
    if (trace_) trace_->add(TraceKind::wait, begin, end);
  }
  // Runs the update rule; the seconds are its, less those it waited (for norms of other ranks).
  void run_rule(const std::function<void()>& rule) {
    const auto begin = Clock::now();
    const double exposed_before = exposed_s_;
    rule();
    update_s_ += seconds_since(begin) - (exposed_s_ - exposed_before);
  }

  // Sums since the beginning.
  double exposed_s() const { return exposed_s_; }
  double update_s() const { return update_s_; }
  // From now on waits are entered in `trace` as well.
  void record(TracePtr trace) { trace_ = std::move(trace); }

 private:
  double exposed_s_ = 0, update_s_ = 0;
  TracePtr trace_;  // may be null
};
using MeterPtr = std::shared_ptr<Meter>;

}  // namespace thinwire::dp
