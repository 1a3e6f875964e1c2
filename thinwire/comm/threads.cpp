#include "thinwire/comm/threads.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

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
  std::optional<PeerLost> lost;

  void check() const {
    if (lost) throw *lost;
  }
};

struct Hub {
  Hub(int size, double timeout_s) : boxes(size), timeout_s(timeout_s) {}
  std::vector<Box> boxes;
  double timeout_s;
  std::atomic<bool> failed = false;
};
using HubPtr = std::shared_ptr<Hub>;

class Post final : public Work {
 public:
  Post(HubPtr hub, int from, LetterPtr letter) : hub_(std::move(hub)), from_(from), letter_(std::move(letter)) {}
  void wait() override {
    Box& box = hub_->boxes[from_];
    std::unique_lock lock(box.mutex);
    box.changed.wait(lock, [&] { return letter_->read || box.lost; });
    if (!letter_->read) box.check();
  }
  bool done() const override {
    std::lock_guard lock(hub_->boxes[from_].mutex);
    return letter_->read;
  }

 private:
  HubPtr hub_;
  int from_;
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
    auto ready = [&] { return box.lost || box.letters.contains(key_); };
    if (!box.changed.wait_for(lock, std::chrono::duration<double>(hub_->timeout_s), ready))
      throw Timeout(key_.first, hub_->timeout_s);
    box.check();
    auto letter = box.letters.extract(key_).mapped();
    lock.unlock();
    read(*letter);
  }

  bool done() const override {
    std::lock_guard once(mutex_);
    if (finished_) return true;
    std::lock_guard lock(hub_->boxes[rank_].mutex);
    return hub_->boxes[rank_].letters.contains(key_);
  }

 private:
  void read(Letter& letter) {
    TORCH_CHECK(letter.bytes.nbytes() == into_.nbytes(), "[comm] rank ", rank_, " expected ", into_.nbytes(),
                " bytes from rank ", key_.first, ", got ", letter.bytes.nbytes(),
                ": the ranks are not making the same calls");
    if (into_.nbytes() > 0) std::memcpy(into_.mutable_data_ptr(), letter.bytes.const_data_ptr(), into_.nbytes());
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
  mutable std::mutex mutex_;
  bool finished_ = false;
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
    return std::make_shared<Post>(hub_, rank_, std::move(letter));
  }

  WorkPtr take(at::Tensor bytes, int from, int64_t tag) override {
    check(bytes, from);
    return std::make_shared<Take>(hub_, rank_, std::move(bytes), from, tag);
  }

  void fail(int rank, const std::string& why) override {
    if (hub_->failed.exchange(true)) return;
    for (Box& box : hub_->boxes) {
      {
        std::lock_guard lock(box.mutex);
        box.lost.emplace(rank, why);
      }
      box.changed.notify_all();
    }
  }

  void rest_until(Clock::time_point when) override {
    Box& box = hub_->boxes[rank_];
    std::unique_lock lock(box.mutex);
    if (box.changed.wait_until(lock, when, [&] { return box.lost.has_value(); })) box.check();
  }

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
