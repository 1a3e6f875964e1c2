#include "thinwire/net/emulated_transport.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "thinwire/base/random.h"

namespace thinwire::net {
namespace {

// A message is two of the inner transport: its bytes, under its own tag, and its note, under the bit that groups leave
// free. So plain and emulated groups can share the inner transport. The note: in how many nanoseconds from its sending
// the first and the last bit are due. The receiver counts them from the note's arrival, so the ranks need no common
// clock; over a real network its own time is added.
int64_t note_tag(int64_t tag) {
  constexpr int64_t kNote = int64_t{1} << 62;
  TORCH_CHECK((tag & kNote) == 0, "[net] an emulated transport cannot be put around another one");
  return tag | kNote;
}

class Sent final : public comm::Work {
 public:
  Sent(comm::WorkPtr note, comm::WorkPtr bytes) : note_(std::move(note)), bytes_(std::move(bytes)) {}
  void wait() override { note_->wait(), bytes_->wait(); }
  bool done() const override { return note_->done() && bytes_->done(); }
  bool poll() override { return note_->poll() && bytes_->poll(); }

 private:
  comm::WorkPtr note_, bytes_;
};

}  // namespace

struct EmulatedTransport::Downlink {
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

EmulatedTransport::EmulatedTransport(comm::TransportPtr inner, Link link, uint64_t seed)
    : WrappedTransport(std::move(inner)),
      link_(std::move(link)),
      seed_(seed),
      start_(Clock::now()),
      downlink_(std::make_shared<Downlink>(link_, start_)) {}

comm::WorkPtr EmulatedTransport::send(at::Tensor bytes, int to, int64_t tag) {
  at::Tensor note = at::empty({2}, at::kLong);
  double late = link_.latency;
  if (link_.jitter > 0) {
    const auto from = static_cast<uint64_t>(rank()), whom = static_cast<uint64_t>(to);
    late += link_.jitter *
            static_cast<double>(hash64({seed_, stream_id("jitter"), from, whom, static_cast<uint64_t>(tag)}) >> 11) *
            0x1p-53;
  }
  double first, last;  // when the bits of those names are due
  {
    std::lock_guard lock(mutex_);
    const double begin = std::max(seconds_since(start_), uplink_free_);
    uplink_free_ = sent_at(link_, begin, static_cast<int64_t>(bytes.nbytes()));
    first = begin + late, last = uplink_free_ + late;
  }
  auto* due = note.mutable_data_ptr<int64_t>();
  const double now = seconds_since(start_);
  due[0] = to_duration(first - now).count();
  due[1] = to_duration(last - now).count();
  auto announced = inner_->send(note, to, note_tag(tag));
  return std::make_shared<Sent>(std::move(announced), inner_->send(std::move(bytes), to, tag));
}

comm::RecvWorkPtr EmulatedTransport::recv(at::Tensor bytes, int from, int64_t tag) {
  class Coming final : public comm::RecvWork {
   public:
    Coming(comm::TransportPtr inner, std::shared_ptr<Downlink> downlink, at::Tensor bytes, int from, int64_t tag)
        : inner_(std::move(inner)),
          downlink_(std::move(downlink)),
          size_(static_cast<int64_t>(bytes.nbytes())),
          note_(at::empty({2}, at::kLong)),
          note_work_(inner_->recv(note_, from, note_tag(tag))),
          bytes_work_(inner_->recv(std::move(bytes), from, tag)) {}
    void wait() override {
      note_work_->wait();
      bytes_work_->wait();
      inner_->sleep_until(arrived_at());
    }
    bool done() const override { return note_work_->done() && bytes_work_->done() && is_due(); }
    bool poll() override { return note_work_->poll() && bytes_work_->poll() && is_due(); }
    Clock::time_point not_before() const override {
      return note_work_->done() && bytes_work_->done() && !broken() ? arrived_at() : Clock::time_point::min();
    }
    Clock::time_point arrived_at() const override {  // the downlink is asked once
      std::call_once(asked_, [this] {
        const auto* due = note_.const_data_ptr<int64_t>();
        const auto sent = note_work_->arrived_at();
        in_at_ = downlink_->in_at(sent + Clock::duration(due[0]), sent + Clock::duration(due[1]), size_);
        inner_->extend_timeouts_until(in_at_);
      });
      return in_at_;
    }

   private:
    bool is_due() const { return broken() || Clock::now() >= arrived_at(); }
    bool broken() const {  // then wait() would throw at once: also where the world ended while this is still on its way
      try {
        note_work_->wait();
        inner_->sleep_until(Clock::time_point::min());
        return false;
      } catch (...) {
        return true;
      }
    }

    const comm::TransportPtr inner_;
    const std::shared_ptr<Downlink> downlink_;
    const int64_t size_;
    const at::Tensor note_;
    const comm::RecvWorkPtr note_work_, bytes_work_;
    mutable std::once_flag asked_;
    mutable Clock::time_point in_at_;
  };
  return std::make_shared<Coming>(inner_, downlink_, std::move(bytes), from, tag);
}

}  // namespace thinwire::net
