#include "thinwire/comm/threads.h"

#include <c10/util/Exception.h>

#include "thinwire/comm/mailbox.h"

namespace thinwire::comm {
namespace {

struct SharedState {
  // Ends the world, the first time it is called.
  void end(const Failure& why) {
    if (ended.exchange(true)) return;
    for (auto& mailbox : mailboxes) mailbox->fail(why);
  }
  std::vector<MailboxPtr> mailboxes;
  TimeoutsPtr timeouts;
  std::atomic<bool> ended = false;
};
using SharedStatePtr = std::shared_ptr<SharedState>;

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(SharedStatePtr shared, int rank)
      : shared_(std::move(shared)), own_(shared_->mailboxes[rank]), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_->mailboxes.size()); }

  WorkPtr send(at::Tensor bytes, int to, int64_t tag) override {
    check(bytes, to);
    auto read = std::make_shared<bool>(false);
    shared_->mailboxes[to]->deliver(rank_, tag, {.bytes = std::move(bytes), .read = [own = std::weak_ptr(own_), read] {
                                                   if (auto sender = own.lock()) sender->notify([&] { *read = true; });
                                                 }});
    return own_->sending(to, std::move(read));
  }

  RecvWorkPtr recv(at::Tensor bytes, int from, int64_t tag) override {
    check(bytes, from);
    return own_->recv(std::move(bytes), from, tag);
  }

  void fail(int rank, const std::string& why) override { shared_->end(PeerLost(rank, why)); }
  void set_timeout(double seconds) override { shared_->timeouts->timeout_s = seconds; }
  void extend_timeouts_until(Clock::time_point when) override { shared_->timeouts->extend_timeouts_until(when); }
  void sleep_until(Clock::time_point when) override { own_->sleep_until(when); }
  uint64_t changes() const override { return own_->changes(); }
  void await_change(uint64_t seen, Clock::time_point until) override { own_->await_change(seen, until); }
  void wake() override {
    own_->notify([] {});
  }

 private:
  void check(const at::Tensor& bytes, int peer) const {
    TORCH_CHECK(bytes.is_contiguous() && bytes.device().is_cpu(), "[comm] a message is a contiguous CPU tensor");
    TORCH_CHECK(peer >= 0 && peer < size(), "[comm] there is no rank ", peer, " among ", size());
  }

  const SharedStatePtr shared_;
  const MailboxPtr own_;
  const int rank_;
};

}  // namespace

std::vector<TransportPtr> thread_transports(int size, double timeout_s) {
  TORCH_CHECK(size > 0, "[comm] a world has at least one rank, got ", size);
  auto shared = std::make_shared<SharedState>();
  shared->timeouts = std::make_shared<Timeouts>(timeout_s);
  for (int rank = 0; rank < size; ++rank)
    shared->mailboxes.push_back(
        std::make_shared<Mailbox>(rank, shared->timeouts, [state = std::weak_ptr(shared)](const Timeout& why) {
          if (auto all = state.lock()) all->end(why);
        }));
  std::vector<TransportPtr> transports;
  for (int rank = 0; rank < size; ++rank) transports.push_back(std::make_shared<ThreadTransport>(shared, rank));
  return transports;
}

}  // namespace thinwire::comm
