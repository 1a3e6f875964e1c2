#include "thinwire/net/emulated_mail.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>

namespace thinwire::net {
namespace {

// A message is two of the inner mail: its bytes, under its own tag, and when it is due (nanoseconds of the monotonic
// clock), under the bit that groups leave free. So plain and emulated groups can share the inner mail.
int64_t due_tag(int64_t tag) {
  constexpr int64_t kDue = int64_t{1} << 62;
  TORCH_CHECK((tag & kDue) == 0, "[net] an emulated mail cannot be put around another one");
  return tag | kDue;
}

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
        bytes_work_(inner_->take(std::move(bytes), from, tag)) {}
  void wait() override {
    due_work_->wait();
    bytes_work_->wait();
    inner_->rest_until(moment(due_));
  }
  bool done() const override {
    if (!due_work_->done() || !bytes_work_->done()) return false;
    try {
      due_work_->wait();
    } catch (...) {
      return true;  // so would wait(), at once
    }
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
  return std::make_shared<Sent>(std::move(announced), inner_->post(std::move(bytes), to, tag));
}

comm::WorkPtr EmulatedMail::take(at::Tensor bytes, int from, int64_t tag) {
  return std::make_shared<Coming>(inner_, std::move(bytes), from, tag);
}

}  // namespace thinwire::net
