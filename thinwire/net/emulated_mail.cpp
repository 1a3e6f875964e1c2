#include "thinwire/net/emulated_mail.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace thinwire::net {
namespace {

// A message is two of the inner mail: when it is due (nanoseconds of the monotonic clock), and its bytes.
int64_t due_tag(int64_t tag) { return tag << 1; }
int64_t bytes_tag(int64_t tag) { return tag << 1 | 1; }

Clock::time_point moment(const at::Tensor& due) {
  return Clock::time_point(std::chrono::nanoseconds(*due.const_data_ptr<int64_t>()));
}

class Sent final : public comm::Work {
 public:
  Sent(comm::WorkPtr due, comm::WorkPtr bytes) : due_(std::move(due)), bytes_(std::move(bytes)) {}
  void wait() override { due_->wait(), bytes_->wait(); }
  bool done() const override { return due_->done() && bytes_->done(); }

 private:
  comm::WorkPtr due_, bytes_;
};

class Coming final : public comm::Work {
 public:
  Coming(comm::MailPtr inner, at::Tensor bytes, int from, int64_t tag)
      : inner_(std::move(inner)),
        due_(at::empty({1}, at::kLong)),
        due_work_(inner_->take(due_, from, due_tag(tag))),
        bytes_work_(inner_->take(std::move(bytes), from, bytes_tag(tag))) {}
  void wait() override {
    due_work_->wait();
    bytes_work_->wait();
    inner_->rest_until(moment(due_));
  }
  bool done() const override {
    if (!due_work_->done() || !bytes_work_->done()) return false;
    due_work_->wait();
    return Clock::now() >= moment(due_);
  }

 private:
  comm::MailPtr inner_;
  at::Tensor due_;
  comm::WorkPtr due_work_, bytes_work_;
};

}  // namespace

comm::WorkPtr EmulatedMail::post(at::Tensor bytes, int to, int64_t tag) {
  at::Tensor due = at::empty({1}, at::kLong);
  {
    std::lock_guard lock(mutex_);
    uplink_free_ = std::max(Clock::now(), uplink_free_) + to_duration(link_.busy_s(bytes.nbytes()));
    *due.mutable_data_ptr<int64_t>() = (uplink_free_ + to_duration(link_.latency)).time_since_epoch().count();
  }
  auto announced = inner_->post(due, to, due_tag(tag));
  return std::make_shared<Sent>(std::move(announced), inner_->post(std::move(bytes), to, bytes_tag(tag)));
}

comm::WorkPtr EmulatedMail::take(at::Tensor bytes, int from, int64_t tag) {
  return std::make_shared<Coming>(inner_, std::move(bytes), from, tag);
}

}  // namespace thinwire::net
