// Point-to-point messages between ranks: the one thing a transport must provide. Collectives are written once over it
// (mail_group.h), and an emulated network is a Mail around a Mail (thinwire/net/emulated_mail.h).
//
// A message is the bytes of a contiguous CPU tensor. It is matched by sender and tag; a tag is used once. post() and
// take() return at once and may be called from any thread. The sender's tensor must not change until the post's wait()
// returns, the receiver's must not be touched until the take's does. Either wait throws Timeout if the other side does
// not come in time. Tags are in [0, 2^62); a mail that wraps a mail may use the bit above for messages of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "thinwire/base/clock.h"
#include "thinwire/comm/work.h"

namespace thinwire::comm {

class Mail {
 public:
  virtual ~Mail() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual WorkPtr post(at::Tensor bytes, int to, int64_t tag) = 0;
  // Its wait() throws an error if the message has another size.
  virtual WorkPtr take(at::Tensor bytes, int from, int64_t tag) = 0;

  // From now on every pending and later wait, on every rank, throws PeerLost{rank, why}. The first call counts.
  virtual void fail(int rank, const std::string& why) = 0;
  // Sleeps; a failure ends it like any other wait. What any rank sleeps counts towards nobody's timeout.
  virtual void rest_until(Clock::time_point when) = 0;
};
using MailPtr = std::shared_ptr<Mail>;

}  // namespace thinwire::comm
