#include "thinwire/comm/framed_transport.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace thinwire::comm {

FramedTransport::FramedTransport(std::shared_ptr<Frames> frames,
                                 const std::function<std::unique_ptr<Carrier>(const std::shared_ptr<Frames>&)>& carry,
                                 double connect_s, const Departure& departure)
    : frames_(std::move(frames)), departure_(departure), carrier_(carry(frames_)) {
  try {
    frames_->await_hellos(connect_s);
  } catch (...) {
    depart();
    throw;
  }
  heartbeat_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!stopped_.wait_for(lock, frames_->heartbeat_interval(), [this] { return stopping_; })) frames_->heartbeat();
  });
}

FramedTransport::~FramedTransport() { depart(); }

void FramedTransport::depart() {
  if (heartbeat_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stopped_.notify_all();
    heartbeat_.join();
  }
  const bool over = frames_->mailbox()->look([] { return false; });
  const double timeout_s = frames_->timeouts().timeout_s;
  frames_->leave();
  frames_->await_end(departure_.awaits_goodbyes,
                     Clock::now() + to_duration(over ? std::min(timeout_s, departure_.after_failure_s) : timeout_s));
  carrier_.reset();
}

void FramedTransport::check(const at::Tensor& bytes, int peer, int64_t tag) const {
  TORCH_CHECK(bytes.is_contiguous() && bytes.device().is_cpu(), "[comm] a message is a contiguous CPU tensor");
  TORCH_CHECK(bytes.nbytes() <= Header::kMaxBytes, "[comm] a message of ", bytes.nbytes(), " bytes is too long");
  TORCH_CHECK(peer >= 0 && peer < size(), "[comm] there is no rank ", peer, " among ", size());
  TORCH_CHECK(tag >= 0, "[comm] a tag is not negative, got ", tag);
}

WorkPtr FramedTransport::send(at::Tensor bytes, int to, int64_t tag) {
  check(bytes, to, tag);
  return frames_->send(std::move(bytes), to, tag);
}

RecvWorkPtr FramedTransport::recv(at::Tensor bytes, int from, int64_t tag) {
  check(bytes, from, tag);
  return frames_->mailbox()->recv(std::move(bytes), from, tag);
}

void FramedTransport::sleep_until(Clock::time_point when) {
  extend_timeouts_until(when);
  frames_->mailbox()->sleep_until(when);
}

}  // namespace thinwire::comm
