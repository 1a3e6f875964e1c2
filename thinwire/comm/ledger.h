// Exact counts of the bytes one rank sent and received, by what they were. A collective is entered when it is started,
// with all it is going to send, so a count never depends on timing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace thinwire::comm {

enum class TrafficKind {
  payload,
  scales,
  control
};  // numbers of the model; what a codec adds to them; everything else
inline constexpr int kTrafficKinds = 3;

class Ledger {
 public:
  void add(TrafficKind kind, int64_t sent, int64_t received) {
    sent_[static_cast<int>(kind)] += sent;
    received_[static_cast<int>(kind)] += received;
  }
  int64_t sent(TrafficKind kind) const { return sent_[static_cast<int>(kind)]; }
  int64_t received(TrafficKind kind) const { return received_[static_cast<int>(kind)]; }
  int64_t sent() const { return sent_[0] + sent_[1] + sent_[2]; }
  int64_t received() const { return received_[0] + received_[1] + received_[2]; }

 private:
  std::array<std::atomic<int64_t>, kTrafficKinds> sent_{}, received_{};
};

}  // namespace thinwire::comm
