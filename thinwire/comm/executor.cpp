#include "thinwire/comm/executor.h"

#include <ATen/Parallel.h>

#include <algorithm>

namespace thinwire::comm {
namespace {

// A message that is overdue causes no change: it is noticed by polling.
constexpr auto kLookAtLeastEvery = std::chrono::milliseconds(100);

}  // namespace

bool Pending::finished() {
  while (!works_.empty()) {
    if (!works_.front()->poll()) return false;
    works_.front()->wait();
    works_.pop_front();
  }
  return true;
}

Clock::time_point Pending::next_poll() const {
  if (works_.empty()) return Clock::time_point::max();
  const auto when = works_.front()->not_before();
  return when == Clock::time_point::min() ? Clock::time_point::max() : when;
}

Executor::Executor(TransportPtr transport) {
  shared_->transport = std::move(transport);
  thread_ = std::thread([shared = shared_, threads = at::get_num_threads()] {
    at::set_num_threads(threads);
    run(*shared);
  });
}

void Executor::close() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->closing = true;
  }
  shared_->transport->wake();
}

void Executor::stop() {
  if (!thread_.joinable()) return;
  close();
  thread_.join();
}

Executor::~Executor() {
  if (thread_.get_id() == std::this_thread::get_id()) {
    close();
    thread_.detach();
  } else {
    stop();
  }
}

void Executor::add(TaskPtr task) {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->fresh.push_back(std::move(task));
  }
  shared_->transport->wake();
}

void Executor::run(Shared& shared) {
  std::vector<TaskPtr> tasks;
  for (;;) {
    const uint64_t seen = shared.transport->changes();
    bool closing;
    {
      std::lock_guard lock(shared.mutex);
      tasks.insert(tasks.end(), shared.fresh.begin(), shared.fresh.end());
      shared.fresh.clear();
      closing = shared.closing;
    }
    auto until = Clock::time_point::max();
    const size_t finished = std::erase_if(tasks, [&](const TaskPtr& task) {
      if (task->advance()) return true;
      until = std::min(until, task->next_poll());
      return false;
    });
    if (finished > 0) continue;  // others may be made of those
    if (tasks.empty() && closing) return;
    if (tasks.empty())
      until = Clock::now() + std::chrono::hours(1);  // max() overflows inside some libraries' waits
    else
      until = std::min(until, Clock::now() + kLookAtLeastEvery);
    shared.transport->await_change(seen, until);
  }
}

}  // namespace thinwire::comm
