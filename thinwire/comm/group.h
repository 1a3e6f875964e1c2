// Collectives over a fixed set of ranks.
//
// All calls but send and recv are collective: every rank of the group makes them, in the same order, with the same
// sizes. They start at once, run in the background and return; the tensors must not be touched until wait() returns.
// Results are the same bits on every rank, on every run and on every transport: chunk k is summed by rank k, in rank
// order. Calls of one rank come from one thread at a time. Tensors are contiguous and on the CPU; sums are defined for
// fp32, fp64 and int64. If a rank fails, wait() throws PeerLost naming it; if one is stuck, Timeout (errors.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "thinwire/comm/ledger.h"
#include "thinwire/comm/work.h"

namespace thinwire::comm {

enum class Reduce { sum, mean, max };

class Executor;
class Group;
using GroupPtr = std::shared_ptr<Group>;

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // x = reduction of all x. Sends 2 (M-1)/M of x's bytes a rank, on average; two latencies.
  virtual WorkPtr all_reduce_(at::Tensor x, Reduce how, TrafficKind kind = TrafficKind::payload) = 0;
  // out = the ranks' `in`, one after another; out has M times in's elements. One latency. `in` may be the own part of
  // `out`.
  virtual WorkPtr all_gather(at::Tensor out, at::Tensor in, TrafficKind kind = TrafficKind::payload) = 0;
  // out = the own M-th part of the reduction of all `in`; in has M times out's elements. One latency. `out` may be the
  // own part of `in`.
  virtual WorkPtr reduce_scatter(at::Tensor out, at::Tensor in, Reduce how,
                                 TrafficKind kind = TrafficKind::payload) = 0;
  // Part k of `in` becomes part rank() of rank k's `out`; both are M equal parts. One latency.
  virtual WorkPtr all_to_all(at::Tensor out, at::Tensor in, TrafficKind kind = TrafficKind::payload) = 0;
  // x = root's x. Two latencies; no rank sends more than 2 (M-1)/M of x's bytes.
  virtual WorkPtr broadcast_(at::Tensor x, int root, TrafficKind kind = TrafficKind::payload) = 0;
  // Not collective: a message from one rank to another. The k-th send to a rank meets that rank's k-th recv from
  // here, of the same size. One latency. The receiver's wait() returns when x has arrived; the sender's when x
  // is free again, which may be much later: it must stay as it is until then.
  virtual WorkPtr send(at::Tensor x, int to, TrafficKind kind = TrafficKind::payload) = 0;
  virtual WorkPtr recv(at::Tensor x, int from, TrafficKind kind = TrafficKind::payload) = 0;
  // Returns when every rank has called it.
  virtual void barrier() = 0;

  // The groups of ranks with equal color, ordered by key, then by rank here. They share the wire and the ledger.
  virtual GroupPtr split(int color, int key) = 0;
  // Bytes of this rank in this group and its splits.
  virtual const Ledger& ledger() const = 0;
  // Drives what goes on in the background, for exchanges that are made of several of the above.
  virtual Executor& executor() = 0;
};

}  // namespace thinwire::comm
