// Messages as frames in streams of bytes: what transports between processes have in common, whatever moves the bytes.
//
// A stream leads from every rank to every other one; what is put into it comes out in order, in pieces of any size. A
// frame is a Header and `size` bytes. Since each frame carries its tag, a backend needs no tags of its own, and since
// everything that arrives is read at once, a message that is not asked for yet blocks no other.
//
// Incoming bytes are untrusted: a header is checked before its size is used, and an invalid one is the loss of the rank
// that sent it. The first failure a rank hears of is forwarded to all others, and ends the world here.
//
// Cost: 24 bytes a message, and a heartbeat of 24 bytes to every rank at least once a second.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "thinwire/comm/identity.h"
#include "thinwire/comm/mailbox.h"

namespace thinwire::comm {

struct Header {
  enum Kind : uint32_t {
    hello = 1,  // the first one; tag: whose; bytes: its Identity
    data,       // tag: of the message
    extend,     // of timeouts; tag: for how many nanoseconds from now, because clocks are not shared
    lost,       // tag: which rank; bytes: why
    late,       // tag: which rank; bytes: a double, seconds
    goodbye,    // the last one: the stream ends on purpose
    heartbeat,  // nothing but that the sender is alive
  };
  static constexpr uint32_t kMagic = 0x54574652;
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 32;
  static constexpr uint64_t kMaxText = uint64_t{1} << 12;
  static constexpr int64_t kLongestExtension = int64_t{400} * 24 * 3600 * 1'000'000'000;

  uint32_t magic = kMagic;
  Kind kind = data;
  int64_t tag = 0;
  uint64_t size = 0;
};
static_assert(sizeof(Header) == 24);

// One rank's end of all streams. Thread-safe.
class Frames {
 public:
  // `notify` is called, from any thread, whenever there may be bytes for `peer` to send; it must not block, and may be
  // called when there are none, or for this rank. A wait that outlives the transport may call it too: what it needs,
  // it owns.
  static std::shared_ptr<Frames> make(int rank, int size, double timeout_s, const Identity& identity,
                                      std::function<void(int peer)> notify);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  const MailboxPtr& mailbox() const { return mailbox_; }
  Timeouts& timeouts() const { return *timeouts_; }

  // The side of the transport. A send is done when its bytes were copied out.
  WorkPtr send(at::Tensor bytes, int to, int64_t tag);
  void extend_timeouts_until(Clock::time_point when);
  void fail(int rank, const std::string& why);
  // Blocks until all others have said hello; throws PeerLost, or Timeout after connect_s.
  void await_hellos(double connect_s);
  // Tells all others that this process lives; to be called every heartbeat_interval(): a rank that is waited for too
  // long may only be waiting itself, and the Timeout is to name the one that is silent.
  void heartbeat();
  Clock::duration heartbeat_interval() const;
  // Says goodbye to all. Nothing is sent after that.
  void leave();
  // Whether all that was to be sent has been copied out; with `goodbyes`, whether every other rank has said goodbye or
  // is lost as well. Waits for it until then.
  bool await_end(bool goodbyes, Clock::time_point until);
  // Whether every other rank has said goodbye.
  bool all_left() const;

  // The side of the backend, which moves the bytes. One thread a peer and direction at a time.
  // Copies out what comes next for `peer`, and says how much that is; 0: nothing now.
  size_t next_bytes(int peer, std::span<char> into);
  // These came from `peer`. Whether more may come: false after its goodbye, and after invalid bytes.
  bool take_bytes(int peer, std::span<const char> bytes);
  // Nothing more comes from `peer`, or goes there. A loss, unless it has said goodbye.
  void disconnect(int peer, const std::string& why);

 private:
  Frames(int rank, int size, double timeout_s, const Identity& identity, std::function<void(int peer)> notify);

  struct Frame {
    Header header;
    at::Tensor bytes = {};            // undefined where there are none
    std::shared_ptr<bool> sent = {};  // guarded by the mailbox; null where no send waits for it
    size_t written = 0;
    bool begun() const { return written > 0; }
  };
  struct Peer {
    std::mutex mutex;  // of what is sent
    std::deque<Frame> queue;
    bool closed = false;                                 // it does not read any more
    std::atomic<Clock::time_point> heard{Clock::now()};  // when something last came
    void add(Frame frame);
    void add_ahead(Frame frame);  // of all that is not begun
    // Of what is received, by the one thread that does.
    Header header;
    size_t got = 0;  // of the frame that is coming in
    at::Tensor bytes;
    // Guarded by the mailbox.
    bool greeted = false, left = false, gone = false;
    std::string host;
  };

  static Frame frame_of(Header::Kind kind, int64_t tag, at::Tensor bytes = {});
  static Frame lost(int rank, const std::string& why);
  Failure failure_of(const Header& header, const at::Tensor& bytes) const;
  void check(int from, const Header& header) const;
  void take(int from, const Header& header, at::Tensor bytes);
  void greet(int from, const std::string& text);
  int silent(int waited_for) const;
  void end(const Frame& why, bool announce);

  const int rank_;
  const Identity identity_;
  const std::function<void(int)> notify_;
  const TimeoutsPtr timeouts_;
  MailboxPtr mailbox_;
  std::vector<std::unique_ptr<Peer>> peers_;  // the one at rank_ is not used
  std::mutex extension_mutex_;
  Clock::time_point extended_ = Clock::time_point::min();  // as far as the others were told
  std::atomic<bool> over_ = false, leaving_ = false;
};

}  // namespace thinwire::comm
