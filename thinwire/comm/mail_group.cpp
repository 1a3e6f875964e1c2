#include "thinwire/comm/mail_group.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <numeric>

#include "thinwire/comm/completion.h"

namespace thinwire::comm {

// Buffers by size; a buffer comes back when its collective is over, so a training loop allocates in its first step
// only.
struct MailGroup::Pool {
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

struct MailGroup::Call final : Completion {
  int64_t tag = 0;
  std::vector<WorkPtr> posts, takes;
  std::vector<at::Tensor> scratch;
  std::shared_ptr<Pool> pool;
  TracePtr trace;
  Clock::time_point begun = Clock::now();
  int64_t bytes = 0;

  // Runs one leg's work, unless one before it threw; what it throws is thrown again by wait().
  template <class F>
  void run(F&& leg) {
    if (failure) return;
    try {
      leg();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  void await_takes() {
    for (auto& work : takes) work->wait();
    takes.clear();
  }
  void await_all() {
    await_takes();
    for (auto& work : posts) work->wait();
    posts.clear();
  }
  // A job of its own, after those that hold the caller's tensors: they are let go before wait() returns, so that the
  // caller's memory is freed by the caller.
  void finish() {
    if (!failure)  // after an error a message may still be on its way into the buffer
      for (auto& buffer : scratch) pool->give_back(std::move(buffer));
    scratch.clear(), posts.clear(), takes.clear();
    if (trace) trace->add(Doing::transfer, begun, Clock::now(), bytes);
    complete(failure);
  }

  std::exception_ptr failure;  // of a leg; the lanes' own
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

void copy(const at::Tensor& to, const at::Tensor& from) {
  if (from.nbytes() > 0 && to.const_data_ptr() != from.const_data_ptr())
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
}

}  // namespace

std::shared_ptr<MailGroup> MailGroup::world(MailPtr mail) {
  std::vector<int> members(mail->size());
  std::iota(members.begin(), members.end(), 0);
  return std::shared_ptr<MailGroup>(new MailGroup(std::move(mail), std::move(members), 0, std::make_shared<Ledger>(),
                                                  std::make_shared<std::atomic<int64_t>>(1)));
}

MailGroup::MailGroup(MailPtr mail, std::vector<int> members, int64_t context, std::shared_ptr<Ledger> ledger,
                     std::shared_ptr<std::atomic<int64_t>> next_context)
    : mail_(std::move(mail)),
      members_(std::move(members)),
      rank_(static_cast<int>(std::ranges::find(members_, mail_->rank()) - members_.begin())),
      context_(context),
      ledger_(std::move(ledger)),
      next_context_(std::move(next_context)),
      pool_(std::make_shared<Pool>()),
      sends_(members_.size()),
      receives_(members_.size()) {}

at::Tensor MailGroup::chunk(const at::Tensor& x, int k) const {
  const int64_t n = x.numel(), m = size(), begin = k * n / m, end = (k + 1) * n / m;
  return x.view(-1).narrow(0, begin, end - begin);
}

at::Tensor MailGroup::part(const at::Tensor& x, int k) const {
  const int64_t n = x.numel() / size();
  return x.view(-1).narrow(0, k * n, n);
}

MailGroup::CallPtr MailGroup::begin(Kind kind, int64_t sent, int64_t received) {
  ledger_->add(kind, sent, received);
  auto call = std::make_shared<Call>();
  call->pool = pool_;
  call->trace = trace_;
  call->bytes = sent;
  call->tag = (context_ << 44) | (calls_++ << 1);
  return call;
}

void MailGroup::post(Call& call, const at::Tensor& bytes, int to, int leg) {
  if (bytes.numel() > 0) call.posts.push_back(mail_->post(bytes, members_[to], call.tag | leg));
}

void MailGroup::take(Call& call, const at::Tensor& bytes, int from, int leg) {
  if (bytes.numel() > 0) call.takes.push_back(mail_->take(bytes, members_[from], call.tag | leg));
}

// One message to and one from every other member. Each starts with the member after it, so that nobody is everybody's
// first.
template <class At>
void MailGroup::exchange(Call& call, int leg, At&& outgoing, At&& incoming) {
  const int m = size();
  for (int i = 1; i < m; ++i) post(call, outgoing((rank_ + i) % m), (rank_ + i) % m, leg);
  for (int i = 1; i < m; ++i) take(call, incoming((rank_ + m - i) % m), (rank_ + m - i) % m, leg);
}

// When the scatter lane has come so far, the gather lane awaits what it started, and the call is over.
void MailGroup::then_gather(CallPtr call) {
  scatter_lane_.add([call, this] {
    gather_lane_.add([call] {
      call->run([&] { call->await_all(); });
      call->finish();
    });
  });
}

using At = std::function<at::Tensor(int)>;

WorkPtr MailGroup::all_reduce_(at::Tensor x, Reduce how, Kind kind) {
  check_buffer(x);
  check_sum(x, how);
  const int64_t m = size();
  at::Tensor own = chunk(x, rank_);
  const int64_t traffic = x.nbytes() + (m - 2) * own.nbytes();  // scatter: all but own; gather: own to all others
  auto call = begin(kind, m > 1 ? traffic : 0, m > 1 ? traffic : 0);
  if (m == 1) {
    call->finish();
    return call;
  }
  std::vector<at::Tensor> others(m);
  for (int k = 0; k < m; ++k)
    if (k != rank_) call->scratch.push_back(others[k] = pool_->get(own.nbytes()));
  exchange(*call, 0, At([&](int k) { return chunk(x, k); }), At([&](int k) { return others[k]; }));

  scatter_lane_.add([=, this] {
    call->run([&] {
      call->await_takes();
      reduce(own, own, others, rank_, how);
      exchange(*call, 1, At([&](int) { return own; }), At([&](int k) { return chunk(x, k); }));
    });
  });
  then_gather(call);
  return call;
}

WorkPtr MailGroup::reduce_scatter(at::Tensor out, at::Tensor in, Reduce how, Kind kind) {
  check_buffer(in), check_buffer(out);
  check_sum(in, how);
  const int64_t m = size();
  TORCH_CHECK(in.numel() == m * out.numel() && in.scalar_type() == out.scalar_type(), "[comm] reduce_scatter needs ", m,
              " times as many elements in as out, of one type; got ", in.numel(), " ", in.scalar_type(), " and ",
              out.numel(), " ", out.scalar_type());
  const int64_t traffic = (m - 1) * out.nbytes();
  auto call = begin(kind, traffic, traffic);
  std::vector<at::Tensor> others(m);
  for (int k = 0; k < m; ++k)
    if (k != rank_) call->scratch.push_back(others[k] = pool_->get(out.nbytes()));
  exchange(*call, 0, At([&](int k) { return part(in, k); }), At([&](int k) { return others[k]; }));
  scatter_lane_.add([=, this] {
    call->run([&] {
      call->await_all();
      reduce(out, part(in, rank_), others, rank_, how);
    });
  });
  scatter_lane_.add([call] { call->finish(); });
  return call;
}

WorkPtr MailGroup::all_gather(at::Tensor out, at::Tensor in, Kind kind) {
  check_buffer(in), check_buffer(out);
  const int64_t m = size();
  TORCH_CHECK(out.numel() == m * in.numel() && in.scalar_type() == out.scalar_type(), "[comm] all_gather needs ", m,
              " times as many elements out as in, of one type; got ", in.numel(), " ", in.scalar_type(), " and ",
              out.numel(), " ", out.scalar_type());
  TORCH_CHECK(!overlap(in, out) || in.const_data_ptr() == part(out, rank_).const_data_ptr(),
              "[comm] all_gather works in place only where `in` is this rank's part of `out`");
  const int64_t traffic = (m - 1) * in.nbytes();
  auto call = begin(kind, traffic, traffic);
  exchange(*call, 0, At([&](int) { return in; }), At([&](int k) { return part(out, k); }));
  scatter_lane_.add([=, this] {
    call->run([&] {
      copy(part(out, rank_), in);
      call->await_all();
    });
  });
  scatter_lane_.add([call] { call->finish(); });
  return call;
}

WorkPtr MailGroup::all_to_all(at::Tensor out, at::Tensor in, Kind kind) {
  check_buffer(in), check_buffer(out);
  const int64_t m = size();
  TORCH_CHECK(out.numel() == in.numel() && in.numel() % m == 0 && in.scalar_type() == out.scalar_type(),
              "[comm] all_to_all needs as many elements out as in, of one type, a multiple of ", m, "; got ",
              in.numel(), " ", in.scalar_type(), " and ", out.numel(), " ", out.scalar_type());
  TORCH_CHECK(!overlap(in, out), "[comm] all_to_all cannot work in place");
  const int64_t traffic = (m - 1) * (in.nbytes() / m);
  auto call = begin(kind, traffic, traffic);
  exchange(*call, 0, At([&](int k) { return part(in, k); }), At([&](int k) { return part(out, k); }));
  scatter_lane_.add([=, this] {
    call->run([&] {
      copy(part(out, rank_), part(in, rank_));
      call->await_all();
    });
  });
  scatter_lane_.add([call] { call->finish(); });
  return call;
}

// The root sends member k its chunk only; then every member passes its chunk on to the others. The root has nothing to
// wait for in between, but goes through the scatter lane too: the gather lanes of all ranks must have the calls in one
// order, or two ranks may wait for each other.
WorkPtr MailGroup::broadcast_(at::Tensor x, int root, Kind kind) {
  check_buffer(x);
  const int64_t m = size();
  TORCH_CHECK(root >= 0 && root < m, "[comm] there is no root ", root, " among ", m);
  const at::Tensor own = chunk(x, rank_);
  const bool is_root = rank_ == root;
  const int64_t whole = x.nbytes(), mine = own.nbytes();
  auto call =
      m == 1 ? begin(kind, 0, 0) : begin(kind, is_root ? whole + (m - 2) * mine : (m - 2) * mine, is_root ? 0 : whole);
  auto pass_on = [=, this] {  // by the root at once
    for (int i = 1; i < m; ++i) {
      const int k = (rank_ + i) % static_cast<int>(m);
      if (k != root) post(*call, own, k, 1);
      if (!is_root) take(*call, chunk(x, k), k, 1);
    }
  };
  if (is_root) {
    for (int k = 0; k < m; ++k)
      if (k != root) post(*call, chunk(x, k), k, 0);
    pass_on();
  } else {
    take(*call, own, root, 0);
  }
  scatter_lane_.add([=] {
    call->run([&] {
      call->await_takes();
      if (!is_root) pass_on();
    });
  });
  then_gather(call);
  return call;
}

// Letters have numbers of their own, above those of the collectives.
int64_t MailGroup::letter_tag(std::vector<int64_t>& counts, int peer) const {
  TORCH_CHECK(peer >= 0 && peer < size() && peer != rank_, "[comm] rank ", rank_, " of ", size(),
              " cannot exchange letters with rank ", peer);
  return (context_ << 44) | (int64_t{1} << 43) | counts[peer]++;
}

WorkPtr MailGroup::send(at::Tensor x, int to, Kind kind) {
  check_buffer(x);
  const int64_t tag = letter_tag(sends_, to);
  ledger_->add(kind, static_cast<int64_t>(x.nbytes()), 0);
  return mail_->post(std::move(x), members_[to], tag);
}

WorkPtr MailGroup::receive(at::Tensor x, int from, Kind kind) {
  check_buffer(x);
  const int64_t tag = letter_tag(receives_, from);
  ledger_->add(kind, 0, static_cast<int64_t>(x.nbytes()));
  return mail_->take(std::move(x), members_[from], tag);
}

void MailGroup::barrier() {
  at::Tensor one = at::empty({1}, at::kByte).zero_();
  all_gather(at::empty({size()}, at::kByte), one, Kind::control)->wait();
}

int64_t MailGroup::fresh_contexts(int64_t count) {
  at::Tensor next = at::empty({1}, at::kLong).fill_(next_context_->load());
  all_reduce_(next, Reduce::max, Kind::control)->wait();
  const int64_t first = next.item<int64_t>();
  TORCH_CHECK(first + count < (int64_t{1} << 18), "[comm] too many groups were made from one world");
  next_context_->store(first + count);
  return first;
}

std::shared_ptr<MailGroup> MailGroup::adopt(std::shared_ptr<MailGroup> child) {
  children_.push_back(child);
  return child;
}

GroupPtr MailGroup::split(int color, int key) {
  at::Tensor mine = at::empty({2}, at::kLong), all = at::empty({size(), 2}, at::kLong);
  mine[0] = color, mine[1] = key;
  all_gather(all, mine, Kind::control)->wait();
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
  std::vector<int> members;
  for (auto& [k, r] : chosen) members.push_back(members_[r]);
  const int64_t context = fresh_contexts(colors.size()) + (std::ranges::find(colors, color) - colors.begin());
  return adopt(std::shared_ptr<MailGroup>(new MailGroup(mail_, std::move(members), context, ledger_, next_context_)));
}

std::shared_ptr<MailGroup> MailGroup::over(MailPtr mail) {
  TORCH_CHECK(mail->rank() == mail_->rank() && mail->size() == mail_->size(), "[comm] over() wants a wrapped mail");
  return adopt(std::shared_ptr<MailGroup>(
      new MailGroup(std::move(mail), members_, fresh_contexts(1), std::make_shared<Ledger>(), next_context_)));
}

}  // namespace thinwire::comm
