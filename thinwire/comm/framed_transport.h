// A transport of frames (frames.h) over a backend that moves bytes: c10d.h, mpi/mpi.h. What a transport between
// processes needs beside framing is here: joining, heartbeats, and an orderly end.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "thinwire/comm/frames.h"
#include "thinwire/comm/transport.h"

namespace thinwire::comm {

// Moves the bytes of all streams, on threads of its own: takes them from Frames::next_bytes when it is notified, and
// passes what arrives to Frames::take_bytes. Its destructor ends these threads, whatever they wait for.
// One is made for all streams of a rank; it holds the Frames it was given as long as its threads run.
class Carrier {
 public:
  virtual ~Carrier() = default;
};

struct Departure {
  // Whether a rank stays until all others have said goodbye. It must where messages in flight are lost when the process
  // that sent them ends.
  bool awaits_goodbyes = true;
  double after_failure_s = 2;  // how long it stays at most where the world is over
};

// Thread-safe, as Transport asks. The peers' streams are independent: a peer that reads slowly holds up none of the
// others.
class FramedTransport final : public Transport {
 public:
  // Blocks until all ranks have joined, which may take connect_s and is not part of the timeout; throws
  // PeerLost or Timeout. `carry` starts the carrier.
  FramedTransport(std::shared_ptr<Frames> frames,
                  const std::function<std::unique_ptr<Carrier>(const std::shared_ptr<Frames>&)>& carry,
                  double connect_s, const Departure& departure = {});
  // Writes out what was sent, for no longer than the timeout, and says goodbye.
  ~FramedTransport() override;

  int rank() const override { return frames_->rank(); }
  int size() const override { return frames_->size(); }
  WorkPtr send(at::Tensor bytes, int to, int64_t tag) override;
  RecvWorkPtr recv(at::Tensor bytes, int from, int64_t tag) override;
  void fail(int rank, const std::string& why) override { frames_->fail(rank, why); }
  void set_timeout(double seconds) override { frames_->timeouts().timeout_s = seconds; }
  void extend_timeouts_until(Clock::time_point when) override { frames_->extend_timeouts_until(when); }
  void sleep_until(Clock::time_point when) override;
  uint64_t changes() const override { return frames_->mailbox()->changes(); }
  void await_change(uint64_t seen, Clock::time_point until) override { frames_->mailbox()->await_change(seen, until); }
  void wake() override {
    frames_->mailbox()->notify([] {});
  }

 private:
  void check(const at::Tensor& bytes, int peer, int64_t tag) const;
  void depart();

  const std::shared_ptr<Frames> frames_;
  const Departure departure_;
  std::unique_ptr<Carrier> carrier_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread heartbeat_;  // tells the others that this process lives, whatever its other threads do
};

}  // namespace thinwire::comm
