// Exact counts of the bytes one rank sent and received, by what they were. A collective is entered when it is started,
// with all it is going to send, so a count never depends on timing. Headers of a transport's own are not counted: the
// numbers are the same on every transport, and what a link would carry beside them is a matter of that link.
//
// Thread-safe. Counts only grow; take differences to count a part of a run.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace thinwire::comm {

// payload: numbers of the model. scales: what a codec adds to them, where it travels apart. control: everything else.
enum class TrafficKind { payload, scales, control };
inline constexpr int kTrafficKinds = 3;  // of them, in this order

// One a rank and link: a group and its splits share one, and with_transport() begins a new one.
class Ledger {
 public:
  // By the group, at the start of a call.
  void add(TrafficKind kind, int64_t sent, int64_t received) {
    sent_[static_cast<int>(kind)] += sent;
    received_[static_cast<int>(kind)] += received;
  }
  // Bytes so far, of one kind and of all.
  int64_t sent(TrafficKind kind) const { return sent_[static_cast<int>(kind)]; }
  int64_t received(TrafficKind kind) const { return received_[static_cast<int>(kind)]; }
  int64_t sent() const { return sent_[0] + sent_[1] + sent_[2]; }
  int64_t received() const { return received_[0] + received_[1] + received_[2]; }

 private:
  std::array<std::atomic<int64_t>, kTrafficKinds> sent_{}, received_{};
};

}  // namespace thinwire::comm
