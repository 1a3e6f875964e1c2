#include "thinwire/comm/threads.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <variant>

#include "thinwire/comm/errors.h"

namespace thinwire::comm {
namespace {

struct Letter {
  at::Tensor bytes;
  bool read = false;  // guarded by the sender's box
};
using LetterPtr = std::shared_ptr<Letter>;

// What one rank waits for: letters to it, and the reading of letters from it.
struct Box {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int64_t>, LetterPtr> letters;  // by (from, tag)
  std::variant<std::monostate, PeerLost, Timeout> end;   // why the world is over, if it is

  bool over() const { return end.index() != 0; }
  void check() const {
    if (auto* lost = std::get_if<PeerLost>(&end)) throw PeerLost(*lost);
    if (auto* late = std::get_if<Timeout>(&end)) throw Timeout(*late);
  }
};

struct Hub {
  Hub(int size, double timeout_s) : boxes(size), timeout_s(timeout_s) {}

  // Ends the world, the first time it is called.
  template <class Why>
  void end(const Why& why) {
    if (ended.exchange(true)) return;
    for (Box& box : boxes) {
      {
        std::lock_guard lock(box.mutex);
        box.end = why;
      }
      box.changed.notify_all();
    }
  }

  // Waits at `box`, which `lock` holds, until ready() or the end of the world. If it waits for `peer` for timeout_s, in
  // which nobody rests, that is the end of the world.
  template <class Ready>
  void await(Box& box, std::unique_lock<std::mutex>& lock, int peer, Ready&& ready) {
    const auto begin = Clock::now();
    while (!ready() && !box.over()) {
      const auto deadline = std::max(begin, rested_until.load()) + to_duration(timeout_s);
      if (Clock::now() >= deadline) {
        lock.unlock();
        end(Timeout(peer, timeout_s));
        throw Timeout(peer, timeout_s);
      }
      box.changed.wait_until(lock, deadline);
    }
  }

  void rest(Box& box, Clock::time_point when) {
    auto latest = rested_until.load();
    while (latest < when && !rested_until.compare_exchange_weak(latest, when)) {
    }
    std::unique_lock lock(box.mutex);
    box.changed.wait_until(lock, when, [&] { return box.over(); });
    box.check();
  }

  std::vector<Box> boxes;
  const double timeout_s;
  std::atomic<bool> ended = false;
  std::atomic<Clock::time_point> rested_until{Clock::time_point::min()};  // the end of the longest rest of any rank
};
using HubPtr = std::shared_ptr<Hub>;

class Post final : public Work {
 public:
  Post(HubPtr hub, int from, int to, LetterPtr letter)
      : hub_(std::move(hub)), from_(from), to_(to), letter_(std::move(letter)) {}
  void wait() override {
    Box& box = hub_->boxes[from_];
    std::unique_lock lock(box.mutex);
    hub_->await(box, lock, to_, [&] { return letter_->read; });
    if (!letter_->read) box.check();
  }
  bool done() const override {
    Box& box = hub_->boxes[from_];
    std::lock_guard lock(box.mutex);
    return letter_->read || box.over();
  }

 private:
  HubPtr hub_;
  int from_, to_;
  LetterPtr letter_;
};

class Take final : public Work {
 public:
  Take(HubPtr hub, int rank, at::Tensor into, int from, int64_t tag)
      : hub_(std::move(hub)), rank_(rank), into_(std::move(into)), key_(from, tag) {}

  void wait() override {
    std::lock_guard once(mutex_);
    if (finished_) return;
    Box& box = hub_->boxes[rank_];
    std::unique_lock lock(box.mutex);
    hub_->await(box, lock, key_.first, [&] { return box.letters.contains(key_); });
    box.check();
    auto found = box.letters.find(key_);
    check_size(*found->second);
    auto letter = std::move(found->second);
    box.letters.erase(found);
    lock.unlock();
    read(*letter);
  }

  bool done() const override {
    if (finished_) return true;
    Box& box = hub_->boxes[rank_];
    std::lock_guard lock(box.mutex);
    return box.over() || box.letters.contains(key_);
  }

 private:
  void check_size(const Letter& letter) const {
    TORCH_CHECK(letter.bytes.nbytes() == into_.nbytes(), "[comm] rank ", rank_, " expected ", into_.nbytes(),
                " bytes from rank ", key_.first, ", got ", letter.bytes.nbytes(),
                ": the ranks are not making the same calls");
  }
  void read(Letter& letter) {
    if (into_.nbytes() > 0) std::memcpy(into_.mutable_data_ptr(), letter.bytes.const_data_ptr(), into_.nbytes());
    into_.reset();
    letter.bytes.reset();  // before the sender hears of it: its memory is not ours to free
    finished_ = true;
    Box& sender = hub_->boxes[key_.first];
    {
      std::lock_guard lock(sender.mutex);
      letter.read = true;
    }
    sender.changed.notify_all();
  }

  HubPtr hub_;
  int rank_;
  at::Tensor into_;
  std::pair<int, int64_t> key_;
  std::mutex mutex_;  // of wait()
  std::atomic<bool> finished_ = false;
};

class ThreadMail final : public Mail {
 public:
  ThreadMail(HubPtr hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(hub_->boxes.size()); }

  WorkPtr post(at::Tensor bytes, int to, int64_t tag) override {
    check(bytes, to);
    auto letter = std::make_shared<Letter>(Letter{std::move(bytes)});
    Box& box = hub_->boxes[to];
    {
      std::lock_guard lock(box.mutex);
      const bool fresh = box.letters.emplace(std::pair(rank_, tag), letter).second;
      TORCH_CHECK(fresh, "[comm] rank ", rank_, " posted tag ", tag, " to rank ", to, " twice");
    }
    box.changed.notify_all();
    return std::make_shared<Post>(hub_, rank_, to, std::move(letter));
  }

  WorkPtr take(at::Tensor bytes, int from, int64_t tag) override {
    check(bytes, from);
    return std::make_shared<Take>(hub_, rank_, std::move(bytes), from, tag);
  }

  void fail(int rank, const std::string& why) override { hub_->end(PeerLost(rank, why)); }
  void rest_until(Clock::time_point when) override { hub_->rest(hub_->boxes[rank_], when); }

 private:
  void check(const at::Tensor& bytes, int peer) const {
    TORCH_CHECK(bytes.is_contiguous() && bytes.device().is_cpu(), "[comm] a message is a contiguous CPU tensor");
    TORCH_CHECK(peer >= 0 && peer < size(), "[comm] there is no rank ", peer, " among ", size());
  }

  HubPtr hub_;
  int rank_;
};

}  // namespace

std::vector<MailPtr> thread_mails(int size, double timeout_s) {
  TORCH_CHECK(size > 0, "[comm] a world has at least one rank, got ", size);
  auto hub = std::make_shared<Hub>(size, timeout_s);
  std::vector<MailPtr> mails;
  for (int rank = 0; rank < size; ++rank) mails.push_back(std::make_shared<ThreadMail>(hub, rank));
  return mails;
}

}  // namespace thinwire::comm
