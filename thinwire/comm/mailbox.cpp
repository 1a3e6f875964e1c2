#include "thinwire/comm/mailbox.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

namespace thinwire::comm {

namespace {

// Whoever waits looks several times a second, on a busy machine too.
constexpr auto kSuspended = std::chrono::seconds(1);

}  // namespace

void Timeouts::extend_timeouts_until(Clock::time_point when) {
  when = std::min(when, Clock::now() + std::chrono::hours(24 * 365));  // a deadline after it must not overflow
  auto latest = extended.load();
  while (latest < when && !extended.compare_exchange_weak(latest, when)) {
  }
}

bool Timeouts::over(Clock::time_point begin) {
  const auto now = Clock::now();
  if (now - std::max(looked_.load(), begin) > kSuspended) extend_timeouts_until(now);
  looked_ = now;  // after the extension: who does not see the gap sees that
  return now >= deadline(begin);
}

Clock::time_point Timeouts::deadline(Clock::time_point begin) const {
  return std::max(begin, extended.load()) + to_duration(timeout_s);
}

namespace {

// When a message was first waited for: what was asked for early is not late.
class FirstWait {
 public:
  Clock::time_point operator()() {
    std::call_once(once_, [this] { at_ = Clock::now(); });
    return at_;
  }

 private:
  std::once_flag once_;
  Clock::time_point at_;
};

}  // namespace

class Mailbox::Recv final : public RecvWork {
 public:
  Recv(std::shared_ptr<Mailbox> mailbox, at::Tensor into, int from, int64_t tag)
      : mailbox_(std::move(mailbox)), into_(std::move(into)), key_(from, tag) {}

  void wait() override {
    std::lock_guard once(mutex_);
    if (finished_) return;
    mailbox_->await(key_.first, since_first_wait_(), [&] { return mailbox_->messages_.contains(key_); });
    Message message;
    {
      std::lock_guard lock(mailbox_->mutex_);
      mailbox_->check();
      const auto found = mailbox_->messages_.find(key_);
      TORCH_CHECK(found->second.bytes.nbytes() == into_.nbytes(), "[comm] rank ", mailbox_->rank_, " expected ",
                  into_.nbytes(), " bytes from rank ", key_.first, ", got ", found->second.bytes.nbytes(),
                  ": the ranks are not making the same calls");
      message = std::move(found->second);
      mailbox_->messages_.erase(found);
    }
    if (into_.nbytes() > 0) std::memcpy(into_.mutable_data_ptr(), message.bytes.const_data_ptr(), into_.nbytes());
    into_.reset();
    message.bytes.reset();  // before the sender hears of it: its memory is not ours to free
    came_ = message.came;
    finished_ = true;
    if (message.read) message.read();
  }

  bool done() const override {
    return finished_ || mailbox_->look([&] { return finished_ || mailbox_->messages_.contains(key_); });
  }
  bool poll() override {
    return finished_ || mailbox_->poll(key_.first, since_first_wait_(),
                                       [&] { return finished_ || mailbox_->messages_.contains(key_); });
  }

  Clock::time_point arrived_at() const override {
    if (finished_) return came_;
    std::lock_guard lock(mailbox_->mutex_);
    const auto found = mailbox_->messages_.find(key_);
    return found == mailbox_->messages_.end() ? came_.load() : found->second.came;
  }

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  at::Tensor into_;
  const std::pair<int, int64_t> key_;
  std::mutex mutex_;  // of wait()
  std::atomic<bool> finished_ = false;
  std::atomic<Clock::time_point> came_{Clock::time_point{}};
  FirstWait since_first_wait_;
};

class Mailbox::Send final : public Work {
 public:
  Send(std::shared_ptr<Mailbox> mailbox, int to, std::shared_ptr<bool> read)
      : mailbox_(std::move(mailbox)), to_(to), read_(std::move(read)) {}
  void wait() override { mailbox_->await(to_, since_first_wait_(), ready()); }
  bool done() const override { return mailbox_->look(ready()); }
  bool poll() override { return mailbox_->poll(to_, since_first_wait_(), ready()); }

 private:
  std::function<bool()> ready() const {
    return [this] { return *read_; };
  }
  const std::shared_ptr<Mailbox> mailbox_;
  const int to_;
  const std::shared_ptr<bool> read_;  // guarded by the mailbox
  FirstWait since_first_wait_;
};

WorkPtr Mailbox::sending(int peer, std::shared_ptr<bool> read) {
  return std::make_shared<Send>(shared_from_this(), peer, std::move(read));
}

Mailbox::Mailbox(int rank, TimeoutsPtr timeouts, std::function<void(const Timeout&)> announce)
    : rank_(rank), timeouts_(std::move(timeouts)), announce_(std::move(announce)) {}

void Mailbox::check() const {
  if (auto* lost = std::get_if<PeerLost>(&failure_)) throw PeerLost(*lost);
  if (auto* late = std::get_if<Timeout>(&failure_)) throw Timeout(*late);
}

void Mailbox::notify(const std::function<void()>& change) {
  {
    std::lock_guard lock(mutex_);
    change();
    ++changes_;
  }
  changed_.notify_all();
}

void Mailbox::deliver(int from, int64_t tag, Message message) {
  message.came = Clock::now();
  notify([&] {
    const bool fresh = messages_.emplace(std::pair(from, tag), std::move(message)).second;
    TORCH_CHECK(fresh, "[comm] rank ", from, " sent tag ", tag, " to rank ", rank_, " twice");
  });
}

void Mailbox::fail(const Failure& failure) {
  notify([&] {
    if (!over()) failure_ = failure;
  });
}

RecvWorkPtr Mailbox::recv(at::Tensor into, int from, int64_t tag) {
  return std::make_shared<Recv>(shared_from_this(), std::move(into), from, tag);
}

void Mailbox::await(int peer, Clock::time_point since, const std::function<bool()>& ready) {
  std::unique_lock lock(mutex_);
  while (!ready() && !over()) {
    if (timeouts_->over(since)) {
      lock.unlock();
      const Timeout late(peer, timeouts_->timeout_s.load());
      announce_(late);
      lock.lock();
      check();  // the world may be over for another reason, or by another's fault
      throw Timeout(late);
    }
    changed_.wait_until(lock, std::min(timeouts_->deadline(since), Clock::now() + timeouts_->look_interval()));
  }
  if (!ready()) check();
}

bool Mailbox::look(const std::function<bool()>& ready) const {
  std::lock_guard lock(mutex_);
  return ready() || over();
}

bool Mailbox::poll(int peer, Clock::time_point since, const std::function<bool()>& ready) {
  {
    std::lock_guard lock(mutex_);
    if (ready() || over()) return true;
    if (!timeouts_->over(since)) return false;
  }
  announce_(Timeout(peer, timeouts_->timeout_s));
  return true;
}

void Mailbox::sleep_until(Clock::time_point when) {
  timeouts_->extend_timeouts_until(when);
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, when, [&] { return over(); });
  check();
}

uint64_t Mailbox::changes() const {
  std::lock_guard lock(mutex_);
  return changes_;
}

void Mailbox::await_change(uint64_t seen, Clock::time_point until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return changes_ != seen; });
}

}  // namespace thinwire::comm
