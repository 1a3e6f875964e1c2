// What every transport must do, as functions of one rank: called where ranks are threads, processes joined by sockets,
// processes of MPI, and processes of torch.distributed. What they print is compared between all of these.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>
#include <xxhash.h>

#include <thread>

#include "tests/comm/errors_of.h"
#include "tests/comm/rank_main.h"
#include "thinwire/base/random.h"
#include "thinwire/net/emulated_transport.h"

namespace thinwire::comm {
namespace {

using std::chrono::milliseconds;

std::string hash_of(const std::string& bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}
std::string hash_of(const at::Tensor& x) {
  return fmt::format("{:016x}", x.nbytes() ? XXH3_64bits(x.const_data_ptr(), x.nbytes()) : 0);
}

at::Tensor ones(int64_t n) { return at::full({n}, 1.0f); }

// Numbers of many magnitudes, so that the order of a sum shows in its last bits; others on every rank and call.
at::Tensor values(at::ScalarType type, int64_t n, int rank, int call) {
  at::Tensor x = at::empty({n}, type);
  auto fill = [&]<class T>(T* p) {
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t h = hash64({static_cast<uint64_t>(i), static_cast<uint64_t>(rank), static_cast<uint64_t>(call)});
      p[i] = static_cast<T>((static_cast<double>(h >> 11) * 0x1p-53 - 0.4) * static_cast<double>(h % 100'000));
    }
  };
  if (type == at::kFloat) fill(x.mutable_data_ptr<float>());
  if (type == at::kDouble) fill(x.mutable_data_ptr<double>());
  if (type == at::kLong) fill(x.mutable_data_ptr<int64_t>());
  return x;
}

// Everything is under way at once, and is waited for backwards.
const RankMain kCollectives("collectives", [](World& world, const Arguments&) {
  struct Call {
    std::string name;
    WorkPtr work;
    at::Tensor result, kept;
  };
  std::vector<Call> calls;
  int count = 0;
  auto all_of = [&](const std::string& where, Group& group, at::ScalarType type, int64_t n) {
    const int m = group.size(), next = (group.rank() + 1) % m, before = (group.rank() + m - 1) % m;
    auto fresh = [&](int64_t size) { return values(type, size, world.rank(), ++count); };
    auto add = [&](const std::string& name, WorkPtr work, at::Tensor result, at::Tensor kept = {}) {
      calls.push_back({fmt::format("{} {} {} {}", where, name, toString(type), n), std::move(work), result, kept});
    };
    for (auto how : {Reduce::sum, Reduce::mean, Reduce::max}) {
      if (type == at::kLong && how == Reduce::mean) continue;
      at::Tensor x = fresh(n), in = fresh(m * n), part = at::empty({n}, type);
      add(fmt::format("all_reduce {}", static_cast<int>(how)), group.all_reduce_(x, how), x);
      add(fmt::format("reduce_scatter {}", static_cast<int>(how)), group.reduce_scatter(part, in, how), part, in);
    }
    at::Tensor mine = fresh(n), gathered = at::empty({m * n}, type), in = fresh(m * n), out = at::empty({m * n}, type);
    add("all_gather", group.all_gather(gathered, mine), gathered, mine);
    add("all_to_all", group.all_to_all(out, in), out, in);
    for (int root = 0; root < m; ++root) {
      at::Tensor x = fresh(n);
      add(fmt::format("broadcast {}", root), group.broadcast_(x, root), x);
    }
    if (m == 1) return;
    at::Tensor message = fresh(n), answer = at::empty({n}, type);
    add("send", group.send(message, next), message);
    add("recv", group.recv(answer, before), answer);
  };
  const GroupPtr half = world.group->split(world.rank() % 2, -world.rank()), quarter = half->split(half->rank() / 2, 0);
  for (auto type : {at::kFloat, at::kDouble, at::kLong})
    for (int64_t n : {0, 1, 7, 1025}) {
      all_of("world", *world.group, type, n);
      all_of("half", *half, type, n);
      all_of("quarter", *quarter, type, n);
    }
  all_of("world", *world.group, at::kFloat, 300'007);  // more than a socket holds
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) call->work->wait();
  world.group->barrier();
  std::string text;
  for (auto& call : calls) text += fmt::format("{} {}\n", call.name, hash_of(call.result));
  return text;
});

const RankMain kWorld("world", [](World& world, const Arguments&) {
  std::string text;
  auto add = [&](const std::string& line) { text += line + "\n"; };
  const int last = world.size() - 1;
  const std::string own = fmt::format("rank {}", world.rank()), much(world.rank() * 1'000'000, 'a' + world.rank());
  add(world.broadcast_bytes(own));
  add(world.broadcast_bytes(own, last));
  add(world.broadcast_bytes(world.rank() == 1 ? "" : own, 1));
  add(hash_of(world.broadcast_bytes(much, last)));
  for (auto& bytes : world.gather_bytes(own)) add(bytes);
  for (auto& bytes : world.gather_bytes(much)) add(fmt::format("{} {}", bytes.size(), hash_of(bytes)));

  struct Own : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  for (int broken : {-1, 0, last}) {
    try {
      world.together([&] {
        if (world.rank() == broken) throw Own("disk full");
      });
      add("no error");
    } catch (const Own& error) {
      add(fmt::format("own: {}", error.what()));
    } catch (const FailedElsewhere& error) {
      add(fmt::format("from {}: {}", error.rank, error.what()));
    }
  }
  world.group->barrier();  // the world goes on
  return text;
});

const RankMain kClocks("clocks", [](World& world, const Arguments&) {
  std::string text;
  for (auto offset : world.clock_offsets())
    text += fmt::format("{} ", std::chrono::round<std::chrono::seconds>(offset).count());
  return text;
});

std::shared_ptr<TransportGroup> emulated(World& world, const net::Link& link) {
  return world.group->with_transport(std::make_shared<net::EmulatedTransport>(world.group->transport(), link));
}

const RankMain kLink("link", [](World& world, const Arguments&) {
  auto group = emulated(world, {.rate = 8e6, .latency = 0.02});
  at::Tensor x = ones(32'000);
  world.group->barrier();
  const auto start = Clock::now();
  group->all_reduce_(x, Reduce::sum, TrafficKind::payload)->wait();
  world.group->barrier();
  const double least = 2 * 3 * 8000 * 4 * 8 / 8e6 + 2 * 0.02, took = seconds_since(start);
  if (took < least) return fmt::format("{} s of {} s", took, least);
  return fmt::format("sum {}", x.sum().item<float>());
});

const RankMain kTransfer("transfer", [](World& world, const Arguments&) -> std::string {
  const auto start = Clock::now();  // nobody sends before all have come here
  auto group = emulated(world, {.rate = 100e3});
  if (world.rank() == 0) group->send(ones(9375), 1, TrafficKind::payload)->wait();  // 3 s
  if (world.rank() == 1) group->recv(ones(9375), 0, TrafficKind::payload)->wait();
  world.group->barrier();
  return seconds_since(start) >= 3 ? "in its own time" : "early";
});

// Rank 2 of 4 does not live on; what the others are at has nothing to do with it for some of them.
const RankMain kLoss("loss", [](World& world, const Arguments& how) {
  const GroupPtr group = world.group;
  if (world.rank() == 2) {  // not by a barrier: the others would still be in it
    for (int rank : {0, 1, 3}) group->recv(ones(1), rank)->wait();
    if (how.at(0) == "killed") ::raise(SIGKILL);
    throw std::runtime_error("out of luck\nsecond line");
  }
  group->send(ones(1), 2);
  auto wait = [&] {
    if (world.rank() == 0) group->all_reduce_(ones(1'000'000), Reduce::sum)->wait();
    if (world.rank() == 1) group->recv(ones(1), 0)->wait();
    if (world.rank() == 3) world.group->transport()->sleep_until(Clock::now() + std::chrono::hours(1));
  };
  if (how.at(0) == "uncaught") wait();
  return error_each_time(wait);
});

const RankMain kStuck("stuck", [](World& world, const Arguments& how) {
  at::Tensor pids = at::empty({world.size()}, at::kLong);
  world.group->all_gather(pids, at::full({1}, ::getpid(), at::kLong), TrafficKind::control)->wait();
  if (world.rank() == 1 && how.at(0) == "stopped") ::raise(SIGSTOP);
  if (world.rank() == 1 && how.at(0) == "busy") {
    const auto never = world.group->transport()->recv(ones(1), 0, 5);
    while (!never->done()) std::this_thread::sleep_for(milliseconds(10));  // does not wait, so does not time out
  }
  const auto text =
      error_each_time([&] { world.group->all_reduce_(ones(1'000'000), Reduce::sum, TrafficKind::payload)->wait(); });
  if (world.rank() == 0) ::kill(static_cast<pid_t>(pids[1].item<int64_t>()), SIGCONT);
  return text;
});

const RankMain kEarly("early", [](World& world, const Arguments&) -> std::string {
  const GroupPtr group = world.group;
  if (world.rank() == 0) {
    for (int to : {1, 2}) group->send(at::full({2'000'000}, 7.0f), to);
    return "gone";
  }
  std::this_thread::sleep_for(milliseconds(200));
  const int other = 3 - world.rank();
  const at::Tensor got = ones(2'000'000);
  group->recv(got, 0)->wait();
  group->send(got, other)->wait();
  group->recv(got.mul_(0), other)->wait();
  return got.eq(7).all().item<bool>() ? "sevens" : "something else";
});

// Rank 0 waits for rank 2, which waits for rank 1, which is stopped; rank 0 first.
const RankMain kChain("chain", [](World& world, const Arguments&) {
  at::Tensor pids = at::empty({world.size()}, at::kLong);
  world.group->all_gather(pids, at::full({1}, ::getpid(), at::kLong), TrafficKind::control)->wait();
  if (world.rank() == 1) ::raise(SIGSTOP);
  if (world.rank() == 2) std::this_thread::sleep_for(milliseconds(500));
  const auto text = error_each_time([&] {
    world.group->recv(ones(1), world.rank() == 0 ? 2 : world.rank() == 1 ? 0 : 1, TrafficKind::control)->wait();
  });
  if (world.rank() == 0) ::kill(static_cast<pid_t>(pids[1].item<int64_t>()), SIGCONT);
  return text;
});

// Longer than a backend's own timeout, where a test has set one.
const RankMain kIdle("idle", [](World& world, const Arguments&) -> std::string {
  world.group->barrier();
  std::this_thread::sleep_for(std::chrono::seconds(5));
  at::Tensor x = ones(10);
  world.group->all_reduce_(x, Reduce::sum, TrafficKind::payload)->wait();
  return x[0].item<float>() == static_cast<float>(world.size()) ? "still here" : "a wrong sum";
});

}  // namespace
}  // namespace thinwire::comm
