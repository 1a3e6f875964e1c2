// The collectives of Group, written once over any Mail.
//
// Words used here: the M ranks of a group are its members. A buffer of n elements is cut into M chunks, chunk k being
// elements [k n / M, (k+1) n / M). A collective has one or two legs: scatter (every rank sends chunk k to member k, who
// reduces) and gather (every rank sends its chunk to all). The first leg is posted by the caller, so it is on the wire
// when the call returns; what follows is done by two lanes (threads), one a leg, so that the gather of one collective
// and the scatter of the next travel together.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "thinwire/base/trace.h"
#include "thinwire/comm/group.h"
#include "thinwire/comm/lane.h"
#include "thinwire/comm/mail.h"

namespace thinwire::comm {

class MailGroup final : public Group {
 public:
  // All ranks of the mail. Not collective. One such group a mail: others are made from it by split() and over().
  static std::shared_ptr<MailGroup> world(MailPtr mail);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  WorkPtr all_reduce_(at::Tensor x, Reduce how, Kind kind) override;
  WorkPtr all_gather(at::Tensor out, at::Tensor in, Kind kind) override;
  WorkPtr reduce_scatter(at::Tensor out, at::Tensor in, Reduce how, Kind kind) override;
  WorkPtr all_to_all(at::Tensor out, at::Tensor in, Kind kind) override;
  WorkPtr broadcast_(at::Tensor x, int root, Kind kind) override;
  WorkPtr send(at::Tensor x, int to, Kind kind) override;
  WorkPtr receive(at::Tensor x, int from, Kind kind) override;
  void barrier() override;
  GroupPtr split(int color, int key) override;
  const Ledger& ledger() const override { return *ledger_; }

  // The same members over another mail, which wraps this group's (an emulated link), with a ledger of its own.
  // Collective.
  std::shared_ptr<MailGroup> over(MailPtr mail);
  const MailPtr& mail() const { return mail_; }
  // From now on every collective of this group and of the splits it has is entered in `trace`, from its call to its
  // end.
  void record(const TracePtr& trace) {
    trace_ = trace;
    for (auto& child : children_) child->record(trace);
  }

 private:
  struct Call;  // one collective under way
  using CallPtr = std::shared_ptr<Call>;
  struct Pool;  // scratch memory

  MailGroup(MailPtr mail, std::vector<int> members, int64_t context, std::shared_ptr<Ledger> ledger,
            std::shared_ptr<std::atomic<int64_t>> next_context);

  // Agrees with all members on `count` tag spaces that none of them uses, and returns the first.
  int64_t fresh_contexts(int64_t count);
  std::shared_ptr<MailGroup> adopt(std::shared_ptr<MailGroup> child);

  at::Tensor chunk(const at::Tensor& x, int k) const;  // elements [k n / M, (k+1) n / M)
  at::Tensor part(const at::Tensor& x, int k) const;   // the k-th of M equal parts
  int64_t letter_tag(std::vector<int64_t>& counts, int peer) const;
  CallPtr begin(Kind kind, int64_t sent, int64_t received);
  void post(Call& call, const at::Tensor& bytes, int to, int leg);
  void take(Call& call, const at::Tensor& bytes, int from, int leg);
  template <class At>
  void exchange(Call& call, int leg, At&& outgoing, At&& incoming);
  void then_gather(CallPtr call);

  const MailPtr mail_;
  const std::vector<int> members_;  // mail ranks
  const int rank_;                  // index of this rank in members_
  const int64_t context_;           // first part of every tag
  const std::shared_ptr<Ledger> ledger_;
  const std::shared_ptr<std::atomic<int64_t>> next_context_;  // shared by all groups made from one world
  const std::shared_ptr<Pool> pool_;
  int64_t calls_ = 0;
  std::vector<int64_t> sends_, receives_;  // so far, to and from each member
  TracePtr trace_;                         // may be null
  // Kept to the end of the world: a rank that throws must reach its world, which tells the others, before anything
  // waits for what is still under way.
  std::vector<std::shared_ptr<MailGroup>> children_;
  Lane gather_lane_, scatter_lane_;  // last, so they end first; the scatter lane ends before the lane it feeds
};

}  // namespace thinwire::comm
