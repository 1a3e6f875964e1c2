#include "thinwire/dp/strategy.h"

#include "thinwire/base/clock.h"

namespace thinwire::dp {

void Strategy::wait(comm::Work& work) {
  const auto start = Clock::now();
  work.wait();
  exposed_s_ += seconds_since(start);
}

}  // namespace thinwire::dp
