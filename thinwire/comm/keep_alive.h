// A rank that is busy with something that may take long and is no training: writing to a slow disk. While one exists,
// no rank's wait times out. (A rank that has died is noticed all the same: by its end, not by its silence.)
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "thinwire/comm/transport.h"

namespace thinwire::comm {

class KeepAlive {
 public:
  explicit KeepAlive(TransportPtr transport);
  ~KeepAlive();
  KeepAlive(const KeepAlive&) = delete;
  KeepAlive& operator=(const KeepAlive&) = delete;

 private:
  const TransportPtr transport_;
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace thinwire::comm
