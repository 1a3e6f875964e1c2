// A Mail that makes another Mail as slow as a Link, in real time and without root.
//
// Each rank has one uplink: its messages leave it one after another at the link's rate, whoever they are for and
// whichever group sends them, and arrive a latency later; and one downlink, through which what arrives comes in, in the
// order in which it is waited for. The bytes themselves travel at once, together with the moments at which their first
// and last bit are due; the receiver rests until then. So no thread is needed, a queue of messages takes exactly the
// time the link would take however late a thread wakes up, and a timeout counts only real waiting.
#pragma once

#include <memory>
#include <mutex>

#include "thinwire/comm/mail.h"
#include "thinwire/net/link.h"

namespace thinwire::net {

class EmulatedMail final : public comm::Mail {
 public:
  // The link's script starts now. `seed` decides the jitter of each message.
  EmulatedMail(comm::MailPtr inner, Link link, uint64_t seed = 0);

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  comm::WorkPtr post(at::Tensor bytes, int to, int64_t tag) override;
  comm::WorkPtr take(at::Tensor bytes, int from, int64_t tag) override;
  void fail(int rank, const std::string& why) override { inner_->fail(rank, why); }
  void rest_until(Clock::time_point when) override { inner_->rest_until(when); }

 private:
  struct Downlink;

  const comm::MailPtr inner_;
  const Link link_;
  const uint64_t seed_;
  const Clock::time_point start_;
  const std::shared_ptr<Downlink> downlink_;
  std::mutex mutex_;
  double uplink_free_ = 0;  // when the last bit of what was posted leaves, in seconds from the start
};

}  // namespace thinwire::net
