// A transport that forwards every call to another one: the base of wrappers (emulated links, counters, faults in
// tests), which override what they change. Shares ownership of the inner one.
//
//   class Counting final : public WrappedTransport {
//     using WrappedTransport::WrappedTransport;
//     WorkPtr send(at::Tensor bytes, int to, int64_t tag) override { ++sent; return inner_->send(bytes, to, tag); }
//   };
//   auto counted = group->with_transport(std::make_shared<Counting>(group->transport()));
#pragma once

#include "thinwire/comm/transport.h"

namespace thinwire::comm {

class WrappedTransport : public Transport {
 public:
  // The contract is Transport's; a wrapper must not break it: messages it adds use the tag bit reserved for them.
  explicit WrappedTransport(TransportPtr inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  WorkPtr send(at::Tensor bytes, int to, int64_t tag) override { return inner_->send(std::move(bytes), to, tag); }
  RecvWorkPtr recv(at::Tensor bytes, int from, int64_t tag) override {
    return inner_->recv(std::move(bytes), from, tag);
  }
  void fail(int rank, const std::string& why) override { inner_->fail(rank, why); }
  void set_timeout(double seconds) override { inner_->set_timeout(seconds); }
  void extend_timeouts_until(Clock::time_point when) override { inner_->extend_timeouts_until(when); }
  void sleep_until(Clock::time_point when) override { inner_->sleep_until(when); }
  uint64_t changes() const override { return inner_->changes(); }
  void await_change(uint64_t seen, Clock::time_point until) override { inner_->await_change(seen, until); }
  void wake() override { inner_->wake(); }

 protected:
  const TransportPtr inner_;
};

}  // namespace thinwire::comm
