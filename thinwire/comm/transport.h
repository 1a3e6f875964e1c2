// Point-to-point messages between ranks: the one thing that a launcher's network must provide. Collectives are written
// once over it (transport_group.h), and an emulated link is a Transport around a Transport
// (thinwire/net/emulated_transport.h).
//
// A message is the bytes of a contiguous CPU tensor. It is matched by sender and tag; a tag is used once. send() and
// recv() return at once and may be called from any thread. A send's wait() returns when its memory is free again:
// ranks that are threads have read it then, over a network it is on its way. Until then the sender's tensor must not
// change, and the receiver's must not be touched until the recv's wait() returns. Either wait throws Timeout if the
// other side is waited for too long. After a wait that throws, memory may still be read or written: let the tensors own
// it. Tags are in [0, 2^62); a transport that wraps another may use the bit above for messages of its
// own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "thinwire/base/clock.h"
#include "thinwire/comm/work.h"

namespace thinwire::comm {

// A message to come.
class Receipt : public Work {
 public:
  // When it reached this rank, by this rank's clock. Only after done().
  virtual Clock::time_point came_at() const = 0;
};
using ReceiptPtr = std::shared_ptr<Receipt>;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual WorkPtr send(at::Tensor bytes, int to, int64_t tag) = 0;
  // Its wait() throws an error if the message has another size.
  virtual ReceiptPtr recv(at::Tensor bytes, int from, int64_t tag) = 0;

  // From now on every pending and later wait, on every rank, throws PeerLost{rank, why}. Of several failures each rank
  // stays with the first it hears of. A rank that ends well is not lost: what it has sent still arrives.
  virtual void fail(int rank, const std::string& why) = 0;

  // How long this rank waits for another from now on; the waits under way too. Ranks are told one by one.
  virtual void set_timeout(double seconds) = 0;
  // Until then (or somewhat longer) no wait of any rank times out: emulated transfer time counts towards nobody's
  // timeout.
  virtual void excuse_until(Clock::time_point when) = 0;
  // Excuses, and sleeps; a failure ends it like any other wait.
  virtual void sleep_until(Clock::time_point when) = 0;

  // For whoever drives several messages at once (executor.h): a number that grows whenever one of them may have come to
  // be done, or somebody calls wake(); and a wait until it is no longer `seen`, or until a moment.
  virtual uint64_t changes() const = 0;
  virtual void await_change(uint64_t seen, Clock::time_point until) = 0;
  virtual void wake() = 0;
};
using TransportPtr = std::shared_ptr<Transport>;

}  // namespace thinwire::comm
