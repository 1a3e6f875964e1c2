// Work that a caller may have done later: how a backward pass leaves the weights' gradients for after the send.
//
// Some results are needed at once and others are not: of a backward pass, the gradient of the input is what the stage
// before waits for, that of the weights can wait. Code that makes such a result calls defer(); it runs there and
// then, unless its caller opened a DeferredWork on this thread, which keeps it until run().
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace thinwire {

class DeferredWork {
 public:
  using Job = std::function<void()>;
  DeferredWork() : outer_(std::exchange(open(), this)) {}
  ~DeferredWork() { open() = outer_; }
  DeferredWork(const DeferredWork&) = delete;

  // What was deferred since it was opened, in order. The caller runs it, or drops it.
  std::vector<Job> take() { return std::exchange(jobs_, {}); }
  static bool is_open() { return open() != nullptr; }
  static void add(Job job) { open()->jobs_.push_back(std::move(job)); }

 private:
  static DeferredWork*& open() {
    static thread_local DeferredWork* innermost = nullptr;
    return innermost;
  }
  std::vector<Job> jobs_;
  DeferredWork* outer_;
};

inline void defer(DeferredWork::Job job) {
  if (DeferredWork::is_open())
    DeferredWork::add(std::move(job));
  else
    job();
}

}  // namespace thinwire
