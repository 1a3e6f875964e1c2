// The collectives of Group, written once over any Transport. The algorithms and their costs are at the top of
// transport_group.cpp.
//
// Words used here: the M ranks of a group are its members. A buffer of n elements is divided into M chunks, chunk k
// being elements [k n / M, (k+1) n / M). A collective has one or two legs: scatter (every rank sends chunk k to member
// k, who reduces) and gather (every rank sends its chunk to all). The first leg is sent by the caller, so it is on the
// wire when the call returns; what follows is done by the rank's executor (executor.h), which all groups made from one
// world share. So the gather of one collective and the scatter of the next travel together, and no call waits for one
// that was made earlier.
//
// A group may be destroyed while its collectives are in flight. Threads: as group.h says, one at a time for the calls
// of a group; different groups of a rank may be used by different threads, but for split() and with_transport().
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "thinwire/base/trace.h"
#include "thinwire/comm/executor.h"
#include "thinwire/comm/group.h"
#include "thinwire/comm/transport.h"

namespace thinwire::comm {

// Made by world(), split() and with_transport() alone.
class TransportGroup final : public Group {
 public:
  // All ranks of the transport. Not collective. One such group a transport: others are made from it by split() and
  // with_transport().
  static std::shared_ptr<TransportGroup> world(TransportPtr transport);

  int rank() const override;
  int size() const override;
  WorkPtr all_reduce_(at::Tensor x, Reduce how, TrafficKind kind) override;
  WorkPtr all_gather(at::Tensor out, at::Tensor in, TrafficKind kind) override;
  WorkPtr reduce_scatter(at::Tensor out, at::Tensor in, Reduce how, TrafficKind kind) override;
  WorkPtr all_to_all(at::Tensor out, at::Tensor in, TrafficKind kind) override;
  WorkPtr broadcast_(at::Tensor x, int root, TrafficKind kind) override;
  WorkPtr send(at::Tensor x, int to, TrafficKind kind) override;
  WorkPtr recv(at::Tensor x, int from, TrafficKind kind) override;
  void barrier() override;
  // Two small control collectives; at most 2^18 groups can be made from one world.
  GroupPtr split(int color, int key) override;
  const Ledger& ledger() const override { return *ledger_; }
  Executor& executor() override { return *executor_; }

  // The same members over another transport, which wraps this group's (an emulated link), with a ledger of its own.
  // Collective, blocking. c10::Error if it has another rank or size.
  std::shared_ptr<TransportGroup> with_transport(TransportPtr wrapped);
  // The one it was made with: what a wrapper wraps.
  const TransportPtr& transport() const;
  // From now on every collective of this group and of its splits, later ones included, is entered in `trace`, from its
  // call to its end. Null: no longer. Not collective; between calls.
  void record(const TracePtr& trace);

 private:
  struct Members;
  struct Call;  // one collective in flight
  using CallPtr = std::shared_ptr<Call>;

  TransportGroup(TransportPtr transport, std::vector<int> ranks, int64_t context, std::shared_ptr<Ledger> ledger,
                 ExecutorPtr executor, std::shared_ptr<std::atomic<int64_t>> next_context);

  // Agrees with all members on `count` tag spaces that none of them uses, and returns the first. Collective.
  int64_t allocate_contexts(int64_t count);
  std::shared_ptr<TransportGroup> adopt(std::shared_ptr<TransportGroup> child);
  int64_t message_tag(std::vector<int64_t>& counts, int peer) const;
  CallPtr begin(TrafficKind kind, int64_t sent, int64_t received);
  WorkPtr submit(CallPtr call);

  std::shared_ptr<Members> members_;
  const int64_t context_;  // first part of every tag
  const std::shared_ptr<Ledger> ledger_;
  const ExecutorPtr executor_;                                // shared by all groups made from one world
  const std::shared_ptr<std::atomic<int64_t>> next_context_;  // likewise
  int64_t calls_ = 0;
  std::vector<int64_t> sends_, recvs_;                   // so far, to and from each member
  TracePtr trace_;                                       // may be null
  std::vector<std::weak_ptr<TransportGroup>> children_;  // those that are still used record too
};

}  // namespace thinwire::comm
