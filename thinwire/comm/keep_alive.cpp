#include "thinwire/comm/keep_alive.h"

namespace thinwire::comm {
namespace {

constexpr auto kAhead = std::chrono::seconds(2), kEvery = std::chrono::seconds(1);

}  // namespace

KeepAlive::KeepAlive(TransportPtr transport) : transport_(std::move(transport)) {
  transport_->extend_timeouts_until(Clock::now() + kAhead);
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!done_changed_.wait_for(lock, kEvery, [this] { return done_; }))
      transport_->extend_timeouts_until(Clock::now() + kAhead);
  });
}

KeepAlive::~KeepAlive() {
  {
    std::lock_guard lock(mutex_);
    done_ = true;
  }
  done_changed_.notify_all();
  thread_.join();
}

}  // namespace thinwire::comm
