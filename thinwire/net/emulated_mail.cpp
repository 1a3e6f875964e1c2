#include "thinwire/net/emulated_mail.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "thinwire/base/random.h"

namespace thinwire::net {
namespace {

// A message is two of the inner mail: its bytes, under its own tag, and its note, under the bit that groups leave free.
// So plain and emulated groups can share the inner mail. The note: when the first and the last bit are due, in
// nanoseconds of the monotonic clock.
int64_t note_tag(int64_t tag) {
  constexpr int64_t kNote = int64_t{1} << 62;
  TORCH_CHECK((tag & kNote) == 0, "[net] an emulated mail cannot be put around another one");
  return tag | kNote;
}

Clock::time_point moment(const at::Tensor& note, int which) {
  return Clock::time_point(std::chrono::nanoseconds(note.const_data_ptr<int64_t>()[which]));
}

class Sent final : public comm::Work {
 public:
  Sent(comm::WorkPtr note, comm::WorkPtr bytes) : note_(std::move(note)), bytes_(std::move(bytes)) {}
  void wait() override { note_->wait(), bytes_->wait(); }
  bool done() const override { return note_->done() && bytes_->done(); }

 private:
  comm::WorkPtr note_, bytes_;
};

}  // namespace

struct EmulatedMail::Downlink {
  Downlink(Link link, Clock::time_point start) : link(std::move(link)), start(start) {}

  // When a message is in whose first and last bit arrive at `first` and `last`.
  Clock::time_point in_at(Clock::time_point first, Clock::time_point last, int64_t bytes) {
    if (link.down == kUnlimited && link.events.empty()) return last;
    std::lock_guard lock(mutex);
    const double begin = std::max(seconds_between(start, first), free);
    free = std::max(received_at(link, begin, bytes), seconds_between(start, last));
    return start + to_duration(free);
  }

  const Link link;
  const Clock::time_point start;
  std::mutex mutex;
  double free = 0;  // when it has taken in what was waited for so far
};

EmulatedMail::EmulatedMail(comm::MailPtr inner, Link link, uint64_t seed)
    : inner_(std::move(inner)),
      link_(std::move(link)),
      seed_(seed),
      start_(Clock::now()),
      downlink_(std::make_shared<Downlink>(link_, start_)) {}

comm::WorkPtr EmulatedMail::post(at::Tensor bytes, int to, int64_t tag) {
  at::Tensor note = at::empty({2}, at::kLong);
  double late = link_.latency;
  if (link_.jitter > 0) {
    const auto from = static_cast<uint64_t>(rank()), whom = static_cast<uint64_t>(to);
    late += link_.jitter *
            static_cast<double>(mix({seed_, word("jitter"), from, whom, static_cast<uint64_t>(tag)}) >> 11) * 0x1p-53;
  }
  {
    std::lock_guard lock(mutex_);
    const double begin = std::max(seconds_since(start_), uplink_free_);
    uplink_free_ = sent_at(link_, begin, static_cast<int64_t>(bytes.nbytes()));
    auto* due = note.mutable_data_ptr<int64_t>();
    due[0] = (start_ + to_duration(begin + late)).time_since_epoch().count();
    due[1] = (start_ + to_duration(uplink_free_ + late)).time_since_epoch().count();
  }
  auto announced = inner_->post(note, to, note_tag(tag));
  return std::make_shared<Sent>(std::move(announced), inner_->post(std::move(bytes), to, tag));
}

comm::WorkPtr EmulatedMail::take(at::Tensor bytes, int from, int64_t tag) {
  class Coming final : public comm::Work {
   public:
    Coming(comm::MailPtr inner, std::shared_ptr<Downlink> downlink, at::Tensor bytes, int from, int64_t tag)
        : inner_(std::move(inner)),
          downlink_(std::move(downlink)),
          size_(static_cast<int64_t>(bytes.nbytes())),
          note_(at::empty({2}, at::kLong)),
          note_work_(inner_->take(note_, from, note_tag(tag))),
          bytes_work_(inner_->take(std::move(bytes), from, tag)) {}
    void wait() override {
      note_work_->wait();
      bytes_work_->wait();
      inner_->rest_until(in_at());
    }
    bool done() const override {
      if (!note_work_->done() || !bytes_work_->done()) return false;
      try {
        note_work_->wait();
      } catch (...) {
        return true;  // so would wait(), at once
      }
      return Clock::now() >= in_at();
    }

   private:
    Clock::time_point in_at() const {  // asked of the downlink once
      std::call_once(asked_, [this] { in_at_ = downlink_->in_at(moment(note_, 0), moment(note_, 1), size_); });
      return in_at_;
    }

    const comm::MailPtr inner_;
    const std::shared_ptr<Downlink> downlink_;
    const int64_t size_;
    const at::Tensor note_;
    const comm::WorkPtr note_work_, bytes_work_;
    mutable std::once_flag asked_;
    mutable Clock::time_point in_at_;
  };
  return std::make_shared<Coming>(inner_, downlink_, std::move(bytes), from, tag);
}

}  // namespace thinwire::net
