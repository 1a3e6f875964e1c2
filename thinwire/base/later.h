// Work that whoever asks for it may do later.
//
// Some results are needed at once and others are not: of a backward pass, the gradient of the input is what the stage
// before waits for, that of the weights can wait. Code that makes such a result calls do_later(); it runs there and
// then, unless its caller opened a Later on this thread, which keeps it until run().
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace thinwire {

class Later {
 public:
  using Job = std::function<void()>;
  Later() : outer_(std::exchange(open(), this)) {}
  ~Later() { open() = outer_; }
  Later(const Later&) = delete;

  // What was put off since it was opened.
  std::vector<Job> take() { return std::exchange(jobs_, {}); }
  static bool is_open() { return open() != nullptr; }
  static void add(Job job) { open()->jobs_.push_back(std::move(job)); }

 private:
  static Later*& open() {
    static thread_local Later* innermost = nullptr;
    return innermost;
  }
  std::vector<Job> jobs_;
  Later* outer_;
};

inline void do_later(Later::Job job) {
  if (Later::is_open())
    Later::add(std::move(job));
  else
    job();
}

}  // namespace thinwire
