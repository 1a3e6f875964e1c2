// The mean of a vector over a group, in few bytes: 1-bit LAMB's compressed collective (2104.06069) with any codec.
//
// Words used here: the vector is cut into M chunks of whole blocks; the last ones may be short or empty. Rank k is the
// server of chunk k. Every rank encodes its chunks, with its worker error, and sends chunk k to server k (one
// all-to-all). The server decodes the M chunks, takes their mean, encodes it with its server error, and sends it to all
// (one all-gather). Everyone decodes the same bytes, so the result is the same bits on every rank. Scales travel inside
// the messages. With one rank nothing is compressed.
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

// The errors of one vector: what this rank lost of its own numbers, and what it lost as a server.
struct Errors {
  ErrorFeedback worker, server;
  void reset();
  void put(State& state, const std::string& prefix) const;  // "worker_error", "server_error"
  void get(const State& state, const std::string& prefix);
};

class CompressedAllReduce {
 public:
  // Where element i of a vector belongs, for error messages.
  using Where = std::function<std::string(int64_t)>;

  // Collective.
  CompressedAllReduce(comm::GroupPtr group, CodecPtr codec, Where where = {});
  ~CompressedAllReduce();
  CompressedAllReduce(const CompressedAllReduce&) = delete;

  // For a vector of n numbers. Not collective.
  Errors errors(int64_t n, at::TensorOptions options = at::kFloat) const;

  // x = the mean of all x, as far as it gets through. Collective: all ranks, same order, same n. The encoding is done
  // when it returns; the rest goes on in the background: x, valid and errors.server must not be touched until wait().
  // Throws c10::Error that names the place if a number is not finite (`where` for this vector, or the one of all).
  // Vectors are served in the order of these calls, and several may be under way: answers to one travel while the next
  // is served.
  comm::WorkPtr start(at::Tensor x, Errors& errors, const ValidCounts& valid = {}, Where where = {});

  // Moves what this rank lost as a server to what it lost as a worker, M times as much: the sum of what all ranks owe
  // stays, and the errors can be given to other vectors.
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
