// A Transport that makes another one as slow as a Link, in real time and without root.
//
// Each rank has one uplink: its messages leave it one after another at the link's rate, whatever rank they are
// for and whatever group sends them, and arrive a latency later; and one downlink, through which what arrives comes in,
// in the order in which it is waited for. The bytes themselves travel at once, together with a note of how much later
// their first and last bit are due; the receiver waits until then. So no thread is needed, a queue of messages takes
// exactly the time the link would take however late a thread wakes up, and a timeout counts only real waiting.
//
// Numbers do not depend on it: the same bytes arrive, later. Jitter is a hash of seed and message, so times are as
// reproducible as the threads' own.
#pragma once

#include <memory>
#include <mutex>

#include "thinwire/comm/wrapped_transport.h"
#include "thinwire/net/link.h"

namespace thinwire::net {

// One a rank and link; all ranks of a group must have one around theirs, since the note is part of the message. Use it
// by TransportGroup::with_transport(). Threads as Transport says.
class EmulatedTransport final : public comm::WrappedTransport {
 public:
  // The link's script starts now. `seed` decides the jitter of each message.
  EmulatedTransport(comm::TransportPtr inner, Link link, uint64_t seed = 0);

  comm::WorkPtr send(at::Tensor bytes, int to, int64_t tag) override;
  comm::RecvWorkPtr recv(at::Tensor bytes, int from, int64_t tag) override;

 private:
  struct Downlink;

  const Link link_;
  const uint64_t seed_;
  const Clock::time_point start_;
  const std::shared_ptr<Downlink> downlink_;
  std::mutex mutex_;
  double uplink_free_ = 0;  // when the last bit of what was sent leaves, in seconds from the start
};

}  // namespace thinwire::net
