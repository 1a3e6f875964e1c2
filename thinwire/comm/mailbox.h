// The receiving half of a transport (threads.h, frames.h): messages that have arrived for one rank and were not asked
// for yet, by sender and tag, and the waits for those that have not arrived.
//
// Thread-safe: one lock and one condition variable for all. The first failure ends every wait, pending and later. A
// wait's timeout runs from the first wait() or poll(), not from recv(): a recv may be posted early.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "thinwire/comm/errors.h"
#include "thinwire/comm/transport.h"

namespace thinwire::comm {

// How long a rank waits for another before it throws; shared by all ranks of a process that are threads.
//
// Time in which this process did not run (SIGSTOP, a suspended machine) counts towards no timeout: if over() was not
// called for a second, though a thread waits, all waits begin anew.
struct Timeouts {
  explicit Timeouts(double timeout_s) : timeout_s(timeout_s) {}
  void extend_timeouts_until(Clock::time_point when);
  // Whether a wait since `begin` has timed out. Every waiting thread calls it at once, and then each look_interval().
  bool over(Clock::time_point begin);
  Clock::time_point deadline(Clock::time_point begin) const;  // when it will have
  Clock::duration look_interval() const { return to_duration(std::min(0.25, timeout_s / 8)); }

  std::atomic<double> timeout_s;
  std::atomic<Clock::time_point> extended{Clock::time_point::min()};

 private:
  std::atomic<Clock::time_point> looked_{Clock::time_point::min()};
};
using TimeoutsPtr = std::shared_ptr<Timeouts>;

// A message that has arrived.
struct Message {
  at::Tensor bytes;
  Clock::time_point came = {};
  std::function<void()> read = {};  // called once it was copied out, by the thread that did
};

// None, or why the world is over.
using Failure = std::variant<std::monostate, PeerLost, Timeout>;

// One a rank. Works that it hands out keep it alive.
class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  // `announce` tells the other ranks, and this mailbox, that a peer has timed out.
  Mailbox(int rank, TimeoutsPtr timeouts, std::function<void(const Timeout&)> announce);

  // From the network. c10::Error if a message of that sender and tag was delivered already.
  void deliver(int from, int64_t tag, Message message);
  void fail(const Failure& failure);

  // The side of the transport; see transport.h.
  RecvWorkPtr recv(at::Tensor into, int from, int64_t tag);
  // A message to `peer` that is done when notify() has set `read`.
  WorkPtr sending(int peer, std::shared_ptr<bool> read);
  void notify(const std::function<void()>& change);  // which is made under the lock

  void sleep_until(Clock::time_point when);
  uint64_t changes() const;
  void await_change(uint64_t seen, Clock::time_point until);

  // Blocks until ready(), which is called under the mailbox's lock whenever notify() was.
  void await(int peer, Clock::time_point since, const std::function<bool()>& ready);
  // Whether ready(), or the world is over.
  bool look(const std::function<bool()>& ready) const;
  // ... or `peer` has timed out since then, which ends the world.
  bool poll(int peer, Clock::time_point since, const std::function<bool()>& ready);

 private:
  class Recv;
  class Send;
  bool over() const { return failure_.index() != 0; }
  void check() const;  // throws what went wrong

  const int rank_;
  const TimeoutsPtr timeouts_;
  const std::function<void(const Timeout&)> announce_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t changes_ = 0;
  std::map<std::pair<int, int64_t>, Message> messages_;  // by (from, tag)
  Failure failure_;
};
using MailboxPtr = std::shared_ptr<Mailbox>;

}  // namespace thinwire::comm
