// Point-to-point messages between ranks: the seam that a launcher's network implements. Collectives are written once
// over it (transport_group.h), and an emulated link is a Transport around a Transport
// (thinwire/net/emulated_transport.h). There are three: threads.h, c10d.h, mpi/mpi.h.
//
// A message is the bytes of a contiguous CPU tensor. It is matched by sender and tag; a tag is used once. Messages may
// overtake each other; none is lost, repeated or cut short unless the world has failed. Sends need no recv to be
// posted: a message that was not asked for yet is kept by the receiver.
//
// All methods may be called from any thread, and none blocks but sleep_until() and await_change(). A send's wait()
// returns when its memory is free again: ranks that are threads have read it then, over a network it is on its way.
// Until then the sender's tensor must not change, and the receiver's must not be touched until the recv's wait()
// returns. Either wait throws Timeout if the other side is waited for too long. After a wait that throws, memory may
// still be read or written: let the tensors own it. Tags are in [0, 2^62); a transport that wraps another may use the
// bit above for messages of its own.
//
// Failure is final and common to all: once a rank is lost or has timed out, every pending and later wait on every rank
// throws, and the world is over. An implementation must tell the other ranks, and must notice a process that ends
// without a word where the network lets it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "thinwire/base/clock.h"
#include "thinwire/comm/work.h"

namespace thinwire::comm {

// A message that was asked for. wait() returns when its bytes are in the tensor.
class RecvWork : public Work {
 public:
  // When it reached this rank, by this rank's clock, however late it was waited for. Only after done().
  virtual Clock::time_point arrived_at() const = 0;
};
using RecvWorkPtr = std::shared_ptr<RecvWork>;

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;  // of this process or thread, in [0, size)
  virtual int size() const = 0;

  // `to` and `from` are other ranks. Sending a tag to a rank again is an error, here or there.
  virtual WorkPtr send(at::Tensor bytes, int to, int64_t tag) = 0;
  // Its wait() throws an error if the message has another size.
  virtual RecvWorkPtr recv(at::Tensor bytes, int from, int64_t tag) = 0;

  // From now on every pending and later wait, on every rank, throws PeerLost{rank, why}. Of several failures each rank
  // stays with the first it hears of. A rank that ends well is not lost: what it has sent still arrives.
  virtual void fail(int rank, const std::string& why) = 0;

  // How long this rank waits for another from now on; waits under way too. Not collective: every rank is to call it
  // (ranks that are threads share one number).
  virtual void set_timeout(double seconds) = 0;
  // Until then (or somewhat longer) no wait of any rank times out: emulated transfer time is not part of a timeout.
  virtual void extend_timeouts_until(Clock::time_point when) = 0;
  // extend_timeouts_until(when), and sleeps; a failure ends it like any other wait.
  virtual void sleep_until(Clock::time_point when) = 0;

  // For one thread that drives many messages (executor.h): a count that grows whenever a message may have become done
  // and at every wake(); and a wait until the count is no longer `seen`, or until a moment. Read the count, look at the
  // messages, then await: a change in between is not missed.
  virtual uint64_t changes() const = 0;
  virtual void await_change(uint64_t seen, Clock::time_point until) = 0;
  virtual void wake() = 0;
};
using TransportPtr = std::shared_ptr<Transport>;

}  // namespace thinwire::comm
