// What has come for one rank and was not asked for yet, and those who wait for it: the receiving half of a transport
// that is told of arriving messages (threads.h; sockets).
//
// Thread-safe. A failure, once told, ends every wait.
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

// How long a rank waits for another; shared by all that can know of each other's sleep.
//
// Time in which this process did not run (SIGSTOP, a suspended machine) counts towards no timeout: if nobody has looked
// here for a second, though somebody waits, all waits begin anew.
struct Patience {
  explicit Patience(double timeout_s) : timeout_s(timeout_s) {}
  void excuse_until(Clock::time_point when);
  // Whether somebody who has waited since `begin` has waited too long. To be asked every look_interval() by whoever
  // waits.
  bool over(Clock::time_point begin);
  Clock::time_point deadline(Clock::time_point begin) const;  // when that will be
  Clock::duration look_interval() const { return to_duration(std::min(0.25, timeout_s / 8)); }

  std::atomic<double> timeout_s;
  std::atomic<Clock::time_point> excused{Clock::time_point::min()};

 private:
  std::atomic<Clock::time_point> looked_{Clock::time_point::min()};
};
using PatiencePtr = std::shared_ptr<Patience>;

struct Message {
  at::Tensor bytes;
  Clock::time_point came = {};
  std::function<void()> read = {};  // called once it was copied out, by the thread that did
};

using Failure = std::variant<std::monostate, PeerLost, Timeout>;

class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  // `spread` tells the other ranks, and this mailbox, that a peer was waited for too long.
  Mailbox(int rank, PatiencePtr patience, std::function<void(const Timeout&)> spread);

  // From the network. An error if that tag is there already.
  void deliver(int from, int64_t tag, Message message);
  void fail(const Failure& failure);

  ReceiptPtr recv(at::Tensor into, int from, int64_t tag);
  // A message to `peer` that is done when notify() has set `read`.
  WorkPtr sending(int peer, std::shared_ptr<bool> read);
  void notify(const std::function<void()>& change);  // which is made under the lock

  void sleep_until(Clock::time_point when);
  uint64_t changes() const;
  void await_change(uint64_t seen, Clock::time_point until);

  // A wait for something that is told by notify(): until ready(), called under the mailbox's lock.
  void await(int peer, Clock::time_point since, const std::function<bool()>& ready);
  // Whether ready(), or the world is over.
  bool look(const std::function<bool()>& ready) const;
  // ... or `peer` was waited for too long since then, which ends the world.
  bool poll(int peer, Clock::time_point since, const std::function<bool()>& ready);

 private:
  class Recv;
  class Send;
  bool over() const { return failure_.index() != 0; }
  void check() const;  // throws what went wrong

  const int rank_;
  const PatiencePtr patience_;
  const std::function<void(const Timeout&)> spread_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t changes_ = 0;
  std::map<std::pair<int, int64_t>, Message> messages_;  // by (from, tag)
  Failure failure_;
};
using MailboxPtr = std::shared_ptr<Mailbox>;

}  // namespace thinwire::comm
