// An operation that was started and goes on in the background, like torch.distributed's Work: a collective, a message,
// a compressed exchange. It owns the tensors it needs; dropping the handle neither cancels nor waits for it.
//
// All methods may be called from any thread.
#pragma once

#include <memory>

#include "thinwire/base/clock.h"

namespace thinwire::comm {

class Work {
 public:
  virtual ~Work() = default;
  // Blocks until it is finished; throws what went wrong: PeerLost, Timeout (errors.h), or c10::Error for calls that do
  // not match. Again it returns, or throws the same, at once.
  virtual void wait() = 0;
  // Whether wait() would return, or throw, at once.
  virtual bool done() const = 0;
  // done() for a caller that waits without blocking (executor.h): from the first call on the timeout runs, and a peer
  // that does not come in time ends the world, as it would in wait().
  virtual bool poll() { return done(); }
  // A lower bound on when done() becomes true, where it is known (an emulated transfer); the distant past otherwise.
  virtual Clock::time_point not_before() const { return Clock::time_point::min(); }
};
using WorkPtr = std::shared_ptr<Work>;

}  // namespace thinwire::comm
