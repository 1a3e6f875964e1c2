// One thread a rank that drives all its exchanges at once.
//
// A task is an exchange under way. advance() goes as far as it can without waiting: it looks which of the messages it
// needs have come, reduces or decodes, sends what is next. The executor calls it whenever something has changed, so it
// never blocks on one message while another has come, and the gather of one exchange travels while the next one is
// scattered. Tasks do not wait for each other, whatever their order.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "thinwire/comm/completion.h"
#include "thinwire/comm/transport.h"

namespace thinwire::comm {

class Task : public Completion {
 public:
  // On the executor's thread. Returns true once it is finished, well or not: it is not called again. Does not throw.
  virtual bool advance() = 0;
  // When it is worth another look even if nothing changes: due times of emulated links. max(): then only.
  virtual Clock::time_point look_again() const = 0;
};
using TaskPtr = std::shared_ptr<Task>;

// Works that are waited for in a row, without waiting.
class Pending {
 public:
  void add(WorkPtr work) { works_.push_back(std::move(work)); }
  // Whether all have finished; throws what one of them throws.
  bool finished();
  Clock::time_point look_again() const;
  void clear() { works_.clear(); }

 private:
  std::deque<WorkPtr> works_;
};

class Executor {
 public:
  // Changes of `transport` wake it up. Its thread computes with as many torch threads as the calling one.
  explicit Executor(TransportPtr transport);
  // stop(); unless it is a task that lets go of it last, which nobody waits for then.
  ~Executor();
  Executor(const Executor&) = delete;

  void add(TaskPtr task);
  // Finishes the tasks it has, then ends its thread. Not from a task.
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
