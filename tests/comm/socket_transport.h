// Messages between processes that share nothing but a connected stream socket a pair: what a launcher's network is to
// the rest of Thinwire, small enough to read. It exists to show that nothing above a Transport needs shared memory.
//
// A frame is a Header and `size` bytes. One thread reads all sockets into the Mailbox, another one writes, so that
// send() never blocks; a send is done when its frame was handed to the socket, whether or not anybody takes it.
// Nothing that comes in is believed: a frame that makes no sense is the loss of the rank that sent it.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/comm/mailbox.h"
#include "thinwire/comm/transport.h"

namespace thinwire::comm {

struct Header {
  enum Kind : uint32_t {
    hello = 1,  // the first one; tag: whose
    data,       // tag: of the message
    excuse,     // tag: for how many nanoseconds from now, because clocks are not shared
    lost,       // tag: which rank; bytes: why
    late,       // tag: which rank; bytes: a double, seconds
    goodbye,    // the last one: the socket is closed on purpose
  };
  static constexpr uint32_t kMagic = 0x54574652;
  static constexpr uint64_t kMostBytes = uint64_t{1} << 32;
  static constexpr uint64_t kMostWords = uint64_t{1} << 12;
  static constexpr int64_t kLongestExcuse = int64_t{400} * 24 * 3600 * 1'000'000'000;

  uint32_t magic = kMagic;
  Kind kind = data;
  int64_t tag = 0;
  uint64_t size = 0;
};
static_assert(sizeof(Header) == 24);

class SocketTransport final : public Transport {
 public:
  // sockets[r] leads to rank r; the one at `rank` is not looked at. They are closed at the end. Blocks until all ranks
  // are there, which may take connect_s and counts towards no timeout of theirs; throws PeerLost or Timeout.
  static std::shared_ptr<SocketTransport> connect(int rank, const std::vector<int>& sockets, double timeout_s,
                                                  double connect_s = 60);
  // Writes out what was sent, for no longer than timeout_s, and takes its leave.
  ~SocketTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  WorkPtr send(at::Tensor bytes, int to, int64_t tag) override;
  ReceiptPtr recv(at::Tensor bytes, int from, int64_t tag) override;
  void fail(int rank, const std::string& why) override;
  void excuse_until(Clock::time_point when) override;
  void sleep_until(Clock::time_point when) override;
  uint64_t changes() const override { return mailbox_->changes(); }
  void await_change(uint64_t seen, Clock::time_point until) override { mailbox_->await_change(seen, until); }
  void wake() override {
    mailbox_->notify([] {});
  }

 private:
  class Reader;
  class Writer;

  SocketTransport(int rank, const std::vector<int>& sockets, double timeout_s);
  void check(const at::Tensor& bytes, int peer, int64_t tag) const;
  void await_all(double connect_s);

  const int rank_, size_;
  const std::vector<int> sockets_;
  const PatiencePtr patience_;
  std::shared_ptr<Writer> writer_;  // the mailbox knows it too, and may outlive this
  MailboxPtr mailbox_;
  std::unique_ptr<Reader> reader_;
  std::thread writing_, reading_;
};

}  // namespace thinwire::comm
