#include "thinwire/dp/strategy.h"

namespace thinwire::dp {

void Strategy::wait(comm::Work& work) {
  const auto begin = Clock::now();
  work.wait();
  const auto end = Clock::now();
  exposed_s_ += seconds_between(begin, end);
  if (trace_) trace_->add(Doing::wait, begin, end);
}

}  // namespace thinwire::dp
