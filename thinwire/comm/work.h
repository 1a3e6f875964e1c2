// Something that was started and goes on in the background.
#pragma once

#include <memory>

namespace thinwire::comm {

class Work {
 public:
  virtual ~Work() = default;
  // Blocks until it is finished; throws what went wrong. From any thread, and again.
  virtual void wait() = 0;
  // Whether wait() would return at once.
  virtual bool done() const = 0;
};
using WorkPtr = std::shared_ptr<Work>;

}  // namespace thinwire::comm
