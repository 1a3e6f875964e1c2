// A Mail that makes another Mail as slow as a Link, in real time and without root.
//
// Each rank has one uplink: its messages leave it one after another at the link's rate, whoever they are for and
// whichever group sends them, and arrive a latency later. The bytes themselves travel at once, preceded by the moment
// they are due; the receiver rests until then. So no thread is needed, a queue of messages takes exactly the time the
// link would take however late a thread wakes up, and a timeout counts only real waiting.
#pragma once

#include <mutex>

#include "thinwire/comm/mail.h"
#include "thinwire/net/link.h"

namespace thinwire::net {

class EmulatedMail final : public comm::Mail {
 public:
  EmulatedMail(comm::MailPtr inner, Link link) : inner_(std::move(inner)), link_(link) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  comm::WorkPtr post(at::Tensor bytes, int to, int64_t tag) override;
  comm::WorkPtr take(at::Tensor bytes, int from, int64_t tag) override;
  void fail(int rank, const std::string& why) override { inner_->fail(rank, why); }
  void rest_until(Clock::time_point when) override { inner_->rest_until(when); }

 private:
  const comm::MailPtr inner_;
  const Link link_;
  std::mutex mutex_;
  Clock::time_point uplink_free_{};  // when the last bit of what was posted leaves
};

}  // namespace thinwire::net
