// The progress thread: one thread a rank that drives all its exchanges at once.
//
// A task is an exchange in flight, written as a state machine. advance() goes as far as it can without blocking: it
// polls the messages it needs, reduces or decodes what has arrived, and sends what is next. The executor calls it
// whenever the transport reports a change, so it never blocks on one message while another has arrived, and the gather
// of one exchange travels while the next one is scattered. Tasks do not wait for each other, whatever their order, so
// there is no deadlock between exchanges of different groups.
//
// add() is thread-safe; advance() and next_poll() of all tasks run on the executor's one thread.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "thinwire/comm/completion.h"
#include "thinwire/comm/transport.h"

namespace thinwire::comm {

// A state machine that the executor drives; its Work is done when complete() was called.
class Task : public Completion {
 public:
  // Returns true once it is finished, or has failed: it is not called again. Must not block or throw; a failure goes to
  // complete().
  virtual bool advance() = 0;
  // When to call advance() again even if the transport reports no change (due times of emulated links); max(): never.
  virtual Clock::time_point next_poll() const = 0;
};
using TaskPtr = std::shared_ptr<Task>;

// Several works that must all finish, polled in their order.
class Pending {
 public:
  void add(WorkPtr work) { works_.push_back(std::move(work)); }
  // Whether all have finished; throws what one of them throws.
  bool finished();
  // The earliest not_before() among the first of them, or max(): for Task::next_poll().
  Clock::time_point next_poll() const;
  void clear() { works_.clear(); }

 private:
  std::deque<WorkPtr> works_;
};

// Owns its thread, and shares the transport. One a rank, for all groups made from one world.
class Executor {
 public:
  // Changes of `transport` wake it up. Its thread computes with as many torch threads as the calling one.
  explicit Executor(TransportPtr transport);
  // stop(); or, where a task holds the last reference, ends the thread without waiting for it.
  ~Executor();
  Executor(const Executor&) = delete;

  // Takes a task over: it is advanced until it is finished, whether anyone still holds it or not.
  void add(TaskPtr task);
  // Finishes the tasks it has, then ends its thread: blocks until then, which a lost peer makes soon and a stuck one
  // makes the timeout. Not from a task. Nothing may be added afterwards.
  void stop();

 private:
  struct Shared {  // with the thread
    TransportPtr transport;
    std::mutex mutex;
    std::vector<TaskPtr> fresh;
    bool closing = false;
  };
  static void run(Shared& shared);
  void close();

  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::thread thread_;
};
using ExecutorPtr = std::shared_ptr<Executor>;

}  // namespace thinwire::comm
