// The mean of a vector over a group, in few bytes: 1-bit LAMB's compressed collective (2104.06069) with any codec.
//
// An ordinary all-reduce cannot sum compressed messages, so the reduction is done by servers that decode. The vector of
// n numbers is divided into M chunks of whole blocks (the last ones may be short or empty), and rank k is the server of
// chunk k:
//
//   encode     every rank, as a worker, encodes each chunk plus its worker error; what the codec loses becomes the new
//              worker error
//   scatter    one all-to-all: message k goes to server k                          (M-1) messages of c bytes a rank
//   reduce     server k decodes its M messages in rank order and takes the mean
//   encode     it encodes the mean plus its server error; what is lost becomes the new server error
//   gather     one all-gather: the server's message goes to all                    (M-1) messages of c bytes a rank
//   decode     every rank decodes the same M messages into x
//
// c = codec bytes(n / M): a rank sends 2 (M-1) c bytes in two latencies, so one_bit sends about 1/32 of what an
// all-reduce of fp32 does. Scales travel inside the messages. Everyone decodes the same bytes, and servers sum in rank
// order, so the result is the same bits on every rank and in every run. With one rank nothing is compressed.
//
// Why two errors: both encodings lose something, at different places. Each is kept where it was lost and added to what
// is encoded there next, so that the sum over time of what arrives stays within one step's error of what was sent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/base/state.h"
#include "thinwire/comm/executor.h"
#include "thinwire/comm/group.h"
#include "thinwire/compress/error_feedback.h"

namespace thinwire::compress {

// The errors of one vector: what this rank lost of its own numbers, and what it lost as a server of its chunk. Owned by
// the caller, who keeps them from one mean of this vector to the next, and saves them in checkpoints.
struct Errors {
  ErrorFeedback worker, server;
  void reset();                                             // to zero
  void put(State& state, const std::string& prefix) const;  // "worker_error", "server_error"
  void get(const State& state, const std::string& prefix);
};

// One for any number of vectors. Calls of one rank come from one thread at a time; wait() from any. It may be destroyed
// while exchanges are in flight; `where` is not called after that.
class CompressedAllReduce {
 public:
  // Where element i of a vector belongs, for error messages.
  using Where = std::function<std::string(int64_t)>;

  // Collective over `group`, which it shares with other users; blocking.
  CompressedAllReduce(comm::GroupPtr group, CodecPtr codec, Where where = {});
  ~CompressedAllReduce();
  CompressedAllReduce(const CompressedAllReduce&) = delete;

  // Zero errors for a vector of n numbers. Not collective.
  Errors errors(int64_t n, at::TensorOptions options = at::kFloat) const;

  // x = the mean of all x, but for what is now in the errors. x is a contiguous fp32 vector; `errors` is of its size.
  // Collective: all ranks, same order, same n. The worker's encoding is done when it returns; the rest goes on in the
  // background: x, valid and errors.server must not be touched until wait(), errors.worker may be. Several vectors may
  // be in flight: they are served in the order of these calls, and one is gathered while the next is served.
  //
  // c10::Error that names the place if a number is not finite (`where` of this vector, or else the constructor's): from
  // start() on the worker that has it, from wait() where a mean overflows. wait() throws comm::PeerLost or
  // comm::Timeout where a rank is lost or stuck.
  comm::WorkPtr start(at::Tensor x, Errors& errors, const ValidCounts& valid = {}, Where where = {});

  // Moves the server error to the worker error, M times as large because a mean divides by M: the sum of what all ranks
  // owe stays, and the worker errors can be divided among other vectors. Not collective.
  void fold(Errors& errors) const;

  // Bytes a rank sends for a vector of n numbers. A pure function of n, the codec and the number of ranks.
  int64_t bytes(int64_t n) const;

 private:
  struct Core;
  struct Flight;
  struct Buffers;

  const std::shared_ptr<Core> core_;
};

}  // namespace thinwire::compress
