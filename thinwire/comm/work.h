// Something that was started and goes on in the background.
#pragma once

#include <memory>

#include "thinwire/base/clock.h"

namespace thinwire::comm {

class Work {
 public:
  virtual ~Work() = default;
  // Blocks until it is finished; throws what went wrong. From any thread, and again.
  virtual void wait() = 0;
  // Whether wait() would return, or throw, at once.
  virtual bool done() const = 0;
  // The same for one who waits without blocking (executor.h): from the first call on, a peer that does not come in time
  // ends the world, as it would end a wait().
  virtual bool poll() { return done(); }
  // done() stays false until then, as far as is known now; long past where it depends on others alone.
  virtual Clock::time_point not_before() const { return Clock::time_point::min(); }
};
using WorkPtr = std::shared_ptr<Work>;

}  // namespace thinwire::comm
