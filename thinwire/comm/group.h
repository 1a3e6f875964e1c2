// Collectives over a fixed set of ranks: what strategies, stages and checkpoints communicate with. M is the number of
// ranks, n the bytes of a tensor.
//
//   call              bytes a rank sends             latencies   result
//   all_reduce_       2 (M-1)/M n                    2           everywhere the reduction of all x
//   reduce_scatter    (M-1)/M n_in                   1           rank k: part k of the reduction of all in
//   all_gather        (M-1) n_in                     1           everywhere all in, in rank order
//   all_to_all        (M-1)/M n                      1           rank k: part k of every in, in rank order
//   broadcast_        root 2 (M-1)/M n, others less  2           everywhere the root's x
//   send, recv        n                              1           the receiver: the sender's x
//   barrier           M-1                            1
//
// All calls but send and recv are collective: every rank of the group makes them, in the same order, with the same
// sizes. They start at once, run in the background and return; several may be in flight. Tensors must not be touched
// until wait() returns: inputs are read and outputs written until then. The group keeps them alive.
//
// Results are the same bits on every rank, on every run and on every transport: chunk k is summed by rank k, in rank
// order. Calls of one rank come from one thread at a time; wait() from any. Tensors are contiguous and on the CPU;
// sums are defined for fp32, fp64 and int64. A wrong call (sizes, types) is c10::Error at once. If a rank fails, wait()
// throws PeerLost naming it; if one is stuck, Timeout (errors.h); then every tensor in flight is undefined.
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

  // x = reduction of all x. 2 (M-1)/M is the mean over ranks: chunks differ by an element where M does not divide n.
  virtual WorkPtr all_reduce_(at::Tensor x, Reduce how, TrafficKind kind = TrafficKind::payload) = 0;
  // out = the ranks' `in`, one after another; out has M times in's elements. `in` may be this rank's part of `out`.
  virtual WorkPtr all_gather(at::Tensor out, at::Tensor in, TrafficKind kind = TrafficKind::payload) = 0;
  // out = this rank's M-th part of the reduction of all `in`; in has M times out's elements. `out` may be this rank's
  // part of `in`.
  virtual WorkPtr reduce_scatter(at::Tensor out, at::Tensor in, Reduce how,
                                 TrafficKind kind = TrafficKind::payload) = 0;
  // Part k of `in` becomes part rank() of rank k's `out`; both are M equal parts, and must not overlap.
  virtual WorkPtr all_to_all(at::Tensor out, at::Tensor in, TrafficKind kind = TrafficKind::payload) = 0;
  // x = root's x. The root sends each rank one chunk, which passes it on, so that the root's uplink is not the limit.
  virtual WorkPtr broadcast_(at::Tensor x, int root, TrafficKind kind = TrafficKind::payload) = 0;
  // Not collective: a message from one rank to another. The k-th send to a rank meets that rank's k-th recv from
  // here, of the same size. The receiver's wait() returns when x has arrived; the sender's when x is free again,
  // which may be much later: it must stay as it is until then.
  virtual WorkPtr send(at::Tensor x, int to, TrafficKind kind = TrafficKind::payload) = 0;
  virtual WorkPtr recv(at::Tensor x, int from, TrafficKind kind = TrafficKind::payload) = 0;
  // Blocks until every rank has called it.
  virtual void barrier() = 0;

  // The groups of ranks with equal color, ordered by key, then by rank here. Collective, blocking. They share the
  // transport, the executor and the ledger with this group, but not the order of calls: calls of different groups never
  // mix, whatever order ranks make them in.
  virtual GroupPtr split(int color, int key) = 0;
  // Bytes of this rank in this group and its splits.
  virtual const Ledger& ledger() const = 0;
  // Runs tasks in the background, for exchanges that are made of several of the above. Lives as long as any group does.
  virtual Executor& executor() = 0;
};

}  // namespace thinwire::comm
