// The algorithms, in the words of transport_group.h: M members, chunk k, legs.
//
// all_reduce_ is a direct reduce-scatter and a direct all-gather:
//
//   leg 0, scatter   every member sends chunk k of its x to member k, for all k but its own: M - 1 messages of n/M
//                    elements. Member k receives M - 1 chunks into buffers of its own and reduces them with its own
//                    chunk in the order of ranks 0, 1, .. M-1, which is what makes the result the same bits in every
//                    run, on every transport and on every rank.
//   leg 1, gather    member k sends the reduced chunk to all others: M - 1 messages of n/M again. They are received
//                    into x, over chunks that leg 0 may still be sending, so they are not asked for before those sends
//                    are done.
//
// Each member sends and receives 2 (M-1)/M n elements, which is the least any all-reduce can do, in two latencies. A
// ring sends as much in 2 (M-1) latencies, and sums every chunk in another order: over distant links with few ranks the
// latencies decide, and the order is part of our promise. The price is M - 1 connections a rank.
//
// reduce_scatter is leg 0 alone, all_gather leg 1 alone, all_to_all leg 0 without the reduction. broadcast_ is both
// legs with one source: the root sends member k chunk k, and every member passes its chunk on to the others, so that
// the root sends 2 (M-1)/M n instead of (M-1) n.
//
// Progress: leg 0 is sent by the caller; what follows is the advance() of a task (executor.h), a list of legs each of
// which runs when all messages asked for before it have arrived. No thread blocks, and any number of collectives are in
// flight at the same time, told apart by their tags: (group's context, call's number, leg). Members number their calls
// alike because collectives are called in the same order everywhere.
#include "thinwire/comm/transport_group.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>

namespace thinwire::comm {
namespace {

// Buffers by size; one is reused when its collective is over, so a training loop allocates in its first step only.
struct Pool {
  at::Tensor get(int64_t bytes) {
    std::lock_guard lock(mutex);
    auto it = free.find(bytes);
    if (it == free.end()) return at::empty({bytes}, at::kByte);
    auto buffer = std::move(it->second);
    free.erase(it);
    return buffer;
  }
  void give_back(at::Tensor buffer) {
    std::lock_guard lock(mutex);
    const int64_t bytes = buffer.numel();
    free.emplace(bytes, std::move(buffer));
  }
  std::mutex mutex;
  std::multimap<int64_t, at::Tensor> free;
};

}  // namespace

// What collectives in flight need of their group; they may outlive it.
struct TransportGroup::Members {
  Members(TransportPtr transport, std::vector<int> ranks, int own)
      : transport(std::move(transport)), ranks(std::move(ranks)), own(own) {}

  const TransportPtr transport;
  const std::vector<int> ranks;  // of the transport
  const int own;                 // index of this rank in `ranks`
  Pool pool;

  int size() const { return static_cast<int>(ranks.size()); }
  at::Tensor chunk(const at::Tensor& x, int k) const {  // elements [k n / M, (k+1) n / M)
    const int64_t n = x.numel(), m = size(), begin = k * n / m, end = (k + 1) * n / m;
    return x.view(-1).narrow(0, begin, end - begin);
  }
  at::Tensor part(const at::Tensor& x, int k) const {  // the k-th of M equal parts
    const int64_t n = x.numel() / size();
    return x.view(-1).narrow(0, k * n, n);
  }
};

struct TransportGroup::Call final : Task {
  using Leg = std::function<void(Call&)>;
  using At = std::function<at::Tensor(int)>;

  std::shared_ptr<Members> members;
  int64_t tag = 0;
  Pending recvs, sends;
  Pending scattered;  // sends of a first leg whose memory a later one receives into
  std::vector<at::Tensor> scratch;
  std::vector<Leg> legs;  // each is run when all recvs before it have come
  size_t next = 0;
  bool waits_for_scattered = false;  // the next leg does
  TracePtr trace;
  Clock::time_point begun = Clock::now();
  int64_t bytes = 0;

  void send(const at::Tensor& x, int to, int leg) {
    if (x.numel() > 0) sends.add(members->transport->send(x, members->ranks[to], tag | leg));
  }
  void recv(const at::Tensor& x, int from, int leg) {
    if (x.numel() > 0) recvs.add(members->transport->recv(x, members->ranks[from], tag | leg));
  }
  // One message to and one from every other member. Each starts with the member after it, so that not all send to the
  // same one first.
  void exchange(int leg, const At& outgoing, const At& incoming) {
    const int m = members->size(), own = members->own;
    for (int i = 1; i < m; ++i) send(outgoing((own + i) % m), (own + i) % m, leg);
    for (int i = 1; i < m; ++i) recv(incoming((own + m - i) % m), (own + m - i) % m, leg);
  }
  // Memory for what the other members send; nothing at this rank's place.
  std::vector<at::Tensor> buffers_for_others(int64_t bytes) {
    std::vector<at::Tensor> others(members->size());
    for (int k = 0; k < members->size(); ++k)
      if (k != members->own) scratch.push_back(others[k] = members->pool.get(bytes));
    return others;
  }

  bool advance() override {
    try {
      for (;;) {
        if (!recvs.finished() || (waits_for_scattered && !scattered.finished())) return false;
        if (next == legs.size()) break;
        legs[next++](*this);
      }
      if (!scattered.finished() || !sends.finished()) return false;
      finish(nullptr);
    } catch (...) {
      finish(std::current_exception());
    }
    return true;
  }
  Clock::time_point next_poll() const override {
    return std::min({recvs.next_poll(), scattered.next_poll(), sends.next_poll()});
  }

 private:
  // The caller's tensors are released before wait() returns, so that the caller's memory is freed by the caller.
  void finish(std::exception_ptr failure) {
    legs.clear(), sends.clear(), scattered.clear(), recvs.clear();
    if (!failure)  // after an error a message may still be on its way into the buffer
      for (auto& buffer : scratch) members->pool.give_back(std::move(buffer));
    scratch.clear();
    if (trace) trace->add(TraceKind::transfer, begun, Clock::now(), bytes);
    complete(std::move(failure));
  }
};

namespace {

// out = inputs[0] o inputs[1] o ..., in this order for every element. out may be one of the inputs.
template <class T>
void reduce_into(T* out, const std::vector<const T*>& inputs, int64_t n, Reduce how) {
  constexpr int64_t kBlock = 2048;  // stays in the first-level cache
  T sum[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t size = std::min(kBlock, n - at);
    std::copy_n(inputs[0] + at, size, sum);
    for (size_t r = 1; r < inputs.size(); ++r) {
      const T* in = inputs[r] + at;
      if (how == Reduce::max)
        for (int64_t i = 0; i < size; ++i) sum[i] = std::max(sum[i], in[i]);
      else
        for (int64_t i = 0; i < size; ++i) sum[i] += in[i];
    }
    if (how == Reduce::mean)
      for (int64_t i = 0; i < size; ++i) sum[i] /= static_cast<T>(inputs.size());
    std::copy_n(sum, size, out + at);
  }
}

// own = reduction, over the group in rank order, of `mine` and the others' chunks (others[me] is not looked at).
void reduce(at::Tensor own, const at::Tensor& mine, const std::vector<at::Tensor>& others, int me, Reduce how) {
  auto typed = [&]<class T>(T) {
    std::vector<const T*> inputs;
    for (size_t r = 0; r < others.size(); ++r)
      inputs.push_back(static_cast<const T*>((static_cast<int>(r) == me ? mine : others[r]).const_data_ptr()));
    reduce_into(static_cast<T*>(own.mutable_data_ptr()), inputs, own.numel(), how);
  };
  switch (own.scalar_type()) {
    case at::kFloat:
      return typed(float{});
    case at::kDouble:
      return typed(double{});
    default:
      return typed(int64_t{});
  }
}

void check_sum(const at::Tensor& x, Reduce how) {
  const auto type = x.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kDouble || type == at::kLong,
              "[comm] only fp32, fp64 and int64 can be reduced, got ", type);
  TORCH_CHECK(type != at::kLong || how != Reduce::mean, "[comm] the mean of whole numbers is not one; sum them");
}

void check_buffer(const at::Tensor& x) {
  TORCH_CHECK(x.is_contiguous() && x.device().is_cpu(), "[comm] collectives work on contiguous CPU tensors");
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  auto* p = static_cast<const char*>(a.const_data_ptr());
  auto* q = static_cast<const char*>(b.const_data_ptr());
  return p < q + b.nbytes() && q < p + a.nbytes();
}

void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  if (from.nbytes() > 0 && to.const_data_ptr() != from.const_data_ptr())
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
}

}  // namespace

std::shared_ptr<TransportGroup> TransportGroup::world(TransportPtr transport) {
  std::vector<int> ranks(transport->size());
  std::iota(ranks.begin(), ranks.end(), 0);
  auto executor = std::make_shared<Executor>(transport);
  return std::shared_ptr<TransportGroup>(new TransportGroup(std::move(transport), std::move(ranks), 0,
                                                            std::make_shared<Ledger>(), std::move(executor),
                                                            std::make_shared<std::atomic<int64_t>>(1)));
}

TransportGroup::TransportGroup(TransportPtr transport, std::vector<int> ranks, int64_t context,
                               std::shared_ptr<Ledger> ledger, ExecutorPtr executor,
                               std::shared_ptr<std::atomic<int64_t>> next_context)
    : context_(context),
      ledger_(std::move(ledger)),
      executor_(std::move(executor)),
      next_context_(std::move(next_context)),
      sends_(ranks.size()),
      recvs_(ranks.size()) {
  const auto own = static_cast<int>(std::ranges::find(ranks, transport->rank()) - ranks.begin());
  members_ = std::make_shared<Members>(std::move(transport), std::move(ranks), own);
}

int TransportGroup::rank() const { return members_->own; }
int TransportGroup::size() const { return members_->size(); }
const TransportPtr& TransportGroup::transport() const { return members_->transport; }

void TransportGroup::record(const TracePtr& trace) {
  trace_ = trace;
  for (auto& child : children_)
    if (const auto used = child.lock()) used->record(trace);
}

TransportGroup::CallPtr TransportGroup::begin(TrafficKind kind, int64_t sent, int64_t received) {
  ledger_->add(kind, sent, received);
  auto call = std::make_shared<Call>();
  call->members = members_;
  call->trace = trace_;
  call->bytes = sent;
  call->tag = (context_ << 44) | (calls_++ << 1);
  return call;
}

// The caller has sent the first leg; the executor does what follows. A group of one rank has nothing to wait for.
WorkPtr TransportGroup::submit(CallPtr call) {
  if (size() == 1)
    call->advance();
  else
    executor_->add(call);
  return call;
}

WorkPtr TransportGroup::all_reduce_(at::Tensor x, Reduce how, TrafficKind kind) {
  check_buffer(x);
  check_sum(x, how);
  const int64_t m = size();
  const at::Tensor own = members_->chunk(x, rank());
  const int64_t traffic = x.nbytes() + (m - 2) * own.nbytes();  // scatter: all but own; gather: own to all others
  auto call = begin(kind, m > 1 ? traffic : 0, m > 1 ? traffic : 0);
  if (m == 1) return submit(call);
  const auto others = call->buffers_for_others(own.nbytes());
  call->exchange(
      0, [&](int k) { return members_->chunk(x, k); }, [&](int k) { return others[k]; });
  std::swap(call->scattered, call->sends);
  call->legs.emplace_back([=](Call& c) {
    reduce(own, own, others, c.members->own, how);
    for (int i = 1; i < m; ++i) c.send(own, static_cast<int>((c.members->own + i) % m), 1);
    c.waits_for_scattered = true;
  });
  call->legs.emplace_back([=](Call& c) {  // into the memory of what was sent
    for (int i = 1; i < m; ++i) {
      const int k = static_cast<int>((c.members->own + m - i) % m);
      c.recv(c.members->chunk(x, k), k, 1);
    }
  });
  return submit(call);
}

WorkPtr TransportGroup::reduce_scatter(at::Tensor out, at::Tensor in, Reduce how, TrafficKind kind) {
  check_buffer(in), check_buffer(out);
  check_sum(in, how);
  const int64_t m = size();
  TORCH_CHECK(in.numel() == m * out.numel() && in.scalar_type() == out.scalar_type(), "[comm] reduce_scatter needs ", m,
              " times as many elements in as out, of one type; got ", in.numel(), " ", in.scalar_type(), " and ",
              out.numel(), " ", out.scalar_type());
  const int64_t traffic = (m - 1) * out.nbytes();
  auto call = begin(kind, traffic, traffic);
  const auto others = call->buffers_for_others(out.nbytes());
  call->exchange(
      0, [&](int k) { return members_->part(in, k); }, [&](int k) { return others[k]; });
  call->legs.emplace_back(
      [=](Call& c) { reduce(out, c.members->part(in, c.members->own), others, c.members->own, how); });
  return submit(call);
}

WorkPtr TransportGroup::all_gather(at::Tensor out, at::Tensor in, TrafficKind kind) {
  check_buffer(in), check_buffer(out);
  const int64_t m = size();
  TORCH_CHECK(out.numel() == m * in.numel() && in.scalar_type() == out.scalar_type(), "[comm] all_gather needs ", m,
              " times as many elements out as in, of one type; got ", in.numel(), " ", in.scalar_type(), " and ",
              out.numel(), " ", out.scalar_type());
  TORCH_CHECK(!overlap(in, out) || in.const_data_ptr() == members_->part(out, rank()).const_data_ptr(),
              "[comm] all_gather works in place only where `in` is this rank's part of `out`");
  const int64_t traffic = (m - 1) * in.nbytes();
  auto call = begin(kind, traffic, traffic);
  call->exchange(
      0, [&](int) { return in; }, [&](int k) { return members_->part(out, k); });
  call->legs.emplace_back([=](Call& c) { copy_bytes(c.members->part(out, c.members->own), in); });
  return submit(call);
}

WorkPtr TransportGroup::all_to_all(at::Tensor out, at::Tensor in, TrafficKind kind) {
  check_buffer(in), check_buffer(out);
  const int64_t m = size();
  TORCH_CHECK(out.numel() == in.numel() && in.numel() % m == 0 && in.scalar_type() == out.scalar_type(),
              "[comm] all_to_all needs as many elements out as in, of one type, a multiple of ", m, "; got ",
              in.numel(), " ", in.scalar_type(), " and ", out.numel(), " ", out.scalar_type());
  TORCH_CHECK(!overlap(in, out), "[comm] all_to_all cannot work in place");
  const int64_t traffic = (m - 1) * (in.nbytes() / m);
  auto call = begin(kind, traffic, traffic);
  call->exchange(
      0, [&](int k) { return members_->part(in, k); }, [&](int k) { return members_->part(out, k); });
  call->legs.emplace_back([=](Call& c) {
    const int own = c.members->own;
    copy_bytes(c.members->part(out, own), c.members->part(in, own));
  });
  return submit(call);
}

WorkPtr TransportGroup::broadcast_(at::Tensor x, int root, TrafficKind kind) {
  check_buffer(x);
  const int m = size(), own_rank = rank();
  TORCH_CHECK(root >= 0 && root < m, "[comm] there is no root ", root, " among ", m);
  const at::Tensor own = members_->chunk(x, own_rank);
  const bool is_root = own_rank == root;
  const int64_t whole = x.nbytes(), mine = own.nbytes();
  auto call =
      m == 1 ? begin(kind, 0, 0) : begin(kind, is_root ? whole + (m - 2) * mine : (m - 2) * mine, is_root ? 0 : whole);
  auto pass_on = [=](Call& c) {  // by the root at once
    for (int i = 1; i < m; ++i) {
      const int k = (own_rank + i) % m;
      if (k != root) c.send(own, k, 1);
      if (!is_root) c.recv(c.members->chunk(x, k), k, 1);
    }
  };
  if (is_root) {
    for (int k = 0; k < m; ++k)
      if (k != root) call->send(members_->chunk(x, k), k, 0);
    pass_on(*call);
  } else {
    call->recv(own, root, 0);
    call->legs.emplace_back(pass_on);
  }
  return submit(call);
}

// Messages have numbers of their own, above those of the collectives.
int64_t TransportGroup::message_tag(std::vector<int64_t>& counts, int peer) const {
  TORCH_CHECK(peer >= 0 && peer < size() && peer != rank(), "[comm] rank ", rank(), " of ", size(),
              " cannot exchange messages with rank ", peer);
  return (context_ << 44) | (int64_t{1} << 43) | counts[peer]++;
}

WorkPtr TransportGroup::send(at::Tensor x, int to, TrafficKind kind) {
  check_buffer(x);
  const int64_t tag = message_tag(sends_, to);
  ledger_->add(kind, static_cast<int64_t>(x.nbytes()), 0);
  return members_->transport->send(std::move(x), members_->ranks[to], tag);
}

WorkPtr TransportGroup::recv(at::Tensor x, int from, TrafficKind kind) {
  check_buffer(x);
  const int64_t tag = message_tag(recvs_, from);
  ledger_->add(kind, 0, static_cast<int64_t>(x.nbytes()));
  return members_->transport->recv(std::move(x), members_->ranks[from], tag);
}

void TransportGroup::barrier() {
  at::Tensor one = at::empty({1}, at::kByte).zero_();
  all_gather(at::empty({size()}, at::kByte), one, TrafficKind::control)->wait();
}

int64_t TransportGroup::allocate_contexts(int64_t count) {
  at::Tensor next = at::empty({1}, at::kLong).fill_(next_context_->load());
  all_reduce_(next, Reduce::max, TrafficKind::control)->wait();
  const int64_t first = next.item<int64_t>();
  TORCH_CHECK(first + count < (int64_t{1} << 18), "[comm] too many groups were made from one world");
  next_context_->store(first + count);
  return first;
}

std::shared_ptr<TransportGroup> TransportGroup::adopt(std::shared_ptr<TransportGroup> child) {
  std::erase_if(children_, [](const auto& old) { return old.expired(); });
  children_.push_back(child);
  return child;
}

GroupPtr TransportGroup::split(int color, int key) {
  at::Tensor mine = at::empty({2}, at::kLong), all = at::empty({size(), 2}, at::kLong);
  mine[0] = color, mine[1] = key;
  all_gather(all, mine, TrafficKind::control)->wait();
  const int64_t* rows = all.const_data_ptr<int64_t>();
  std::vector<int64_t> colors;
  std::vector<std::pair<int64_t, int>> chosen;  // (key, rank here)
  for (int r = 0; r < size(); ++r) {
    colors.push_back(rows[2 * r]);
    if (rows[2 * r] == color) chosen.emplace_back(rows[2 * r + 1], r);
  }
  std::ranges::sort(colors);
  colors.erase(std::unique(colors.begin(), colors.end()), colors.end());
  std::ranges::sort(chosen);
  std::vector<int> ranks;
  for (auto& [k, r] : chosen) ranks.push_back(members_->ranks[r]);
  const int64_t context = allocate_contexts(std::ssize(colors)) + (std::ranges::find(colors, color) - colors.begin());
  auto child = adopt(std::shared_ptr<TransportGroup>(
      new TransportGroup(transport(), std::move(ranks), context, ledger_, executor_, next_context_)));
  child->record(trace_);
  return child;
}

std::shared_ptr<TransportGroup> TransportGroup::with_transport(TransportPtr wrapped) {
  TORCH_CHECK(wrapped->rank() == transport()->rank() && wrapped->size() == transport()->size(),
              "[comm] with_transport() wants this group's transport, wrapped");
  return adopt(
      std::shared_ptr<TransportGroup>(new TransportGroup(std::move(wrapped), members_->ranks, allocate_contexts(1),
                                                         std::make_shared<Ledger>(), executor_, next_context_)));
}

}  // namespace thinwire::comm
