// Work that another thread completes (a promise): the part of a collective that callers wait for. Thread-safe.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>

#include "thinwire/comm/work.h"

namespace thinwire::comm {

class Completion : public Work {
 public:
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finished_; });
    if (failure_) std::rethrow_exception(failure_);
  }
  bool done() const override {
    std::lock_guard lock(mutex_);
    return finished_;
  }
  // By the one who does the work, once. What `failure` holds is thrown by every wait(), now waiting or later.
  void complete(std::exception_ptr failure = nullptr) {
    {
      std::lock_guard lock(mutex_);
      failure_ = std::move(failure);
      finished_ = true;
    }
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  std::exception_ptr failure_;
};

}  // namespace thinwire::comm
