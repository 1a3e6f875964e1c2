#include "tests/comm/processes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <thread>

#include "tests/comm/socket_transport.h"
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

std::string error_of(const std::function<void()>& wait) {
  try {
    wait();
    return "no error";
  } catch (const PeerLost& lost) {
    return fmt::format("PeerLost {}: {}", lost.rank, lost.what());
  } catch (const Timeout& late) {
    return fmt::format("Timeout {}: {}", late.rank, late.what());
  }
}

// What is over stays over.
std::string error_each_time(const std::function<void()>& wait) {
  const std::string first = error_of(wait), second = error_of(wait);
  return first == second ? first : first + ", then " + second;
}

void expect_all_end_with(const std::vector<Ended>& all, const std::vector<std::string>& texts) {
  ASSERT_EQ(all.size(), texts.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    EXPECT_EQ(all[rank].code, 0) << "rank " << rank << ", signal " << all[rank].signal;
    EXPECT_EQ(all[rank].text, texts[rank]) << "rank " << rank;
  }
}

bool may_set_clocks(const std::vector<Ended>& all) {
  return std::ranges::none_of(all, [](auto& ended) { return ended.code == kNoRights; });
}

// Everything is under way at once, and is waited for backwards.
const ProcessMain kCollectives("collectives", [](World& world, const Arguments&) {
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
    at::Tensor letter = fresh(n), answer = at::empty({n}, type);
    add("send", group.send(letter, next), letter);
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

TEST(Processes, GiveTheSameBitsAsThreadsInEveryCollective) {
  for (int size : {1, 2, 5}) {
    const auto texts = run_as_threads(size, {"collectives"});
    EXPECT_GT(std::ranges::count(texts[0], '\n'), 3 * 3 * 4 * 8);
    expect_all_end_with(run_processes(size, {"collectives"}), texts);
  }
}

const ProcessMain kWorld("world", [](World& world, const Arguments&) {
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

TEST(Processes, ExchangeBytesAndErrorsAsThreadsDo) {
  const auto texts = run_as_threads(3, {"world"});
  EXPECT_TRUE(texts[0].starts_with("rank 0\nrank 2\n\n"));
  EXPECT_NE(texts[0].find("rank 0\nrank 1\nrank 2\n0 "), std::string::npos) << "gathered in rank order";
  EXPECT_TRUE(texts[1].ends_with("no error\nfrom 0: rank 0: disk full\nfrom 2: rank 2: disk full\n"));
  EXPECT_TRUE(texts[2].ends_with("no error\nfrom 0: rank 0: disk full\nown: disk full\n"));
  expect_all_end_with(run_processes(3, {"world"}), texts);
}

const ProcessMain kDisk("disk", [](World& world, const Arguments&) -> std::string {
  return world.shares_disk ? "shared" : "its own";
});

TEST(Processes, DoNotClaimToShareADisk) { expect_all_end_with(run_processes(2, {"disk"}), {"its own", "its own"}); }

const ProcessMain kClocks("clocks", [](World& world, const Arguments&) {
  std::string text;
  for (auto offset : world.clock_offsets())
    text += fmt::format("{} ", std::chrono::round<std::chrono::seconds>(offset).count());
  return text;
});

TEST(Processes, FindTheOffsetsOfTheirClocks) {
  expect_all_end_with(run_processes(3, {"clocks"}), {"0 0 0 ", "", ""});
  const auto apart = run_processes(3, {"clocks"}, {.clock_step_s = 1000});
  if (!may_set_clocks(apart)) GTEST_SKIP() << "a time namespace takes rights this process does not have";
  expect_all_end_with(apart, {"0 -1000 -2000 ", "", ""});
}

std::shared_ptr<TransportGroup> emulated(World& world, const net::Link& link) {
  return world.group->with_transport(std::make_shared<net::EmulatedTransport>(world.group->transport(), link));
}

const ProcessMain kLink("link", [](World& world, const Arguments&) {
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

// Where clocks are far apart, a due time that was not relative would have passed, or be for ever away.
TEST(Processes, TakeTheTimeOfAnEmulatedLinkWhateverTheirClocks) {
  const std::vector<std::string> texts(4, "sum 128000");
  expect_all_end_with(run_processes(4, {"link"}), texts);
  const auto apart = run_processes(4, {"link"}, {.limit_s = 60, .clock_step_s = 1000});
  if (!may_set_clocks(apart)) GTEST_SKIP() << "a time namespace takes rights this process does not have";
  expect_all_end_with(apart, texts);
}

const ProcessMain kTransfer("transfer", [](World& world, const Arguments&) -> std::string {
  const auto start = Clock::now();  // nobody sends before all have come here
  auto group = emulated(world, {.rate = 100e3});
  if (world.rank() == 0) group->send(ones(9375), 1, TrafficKind::payload)->wait();  // 3 s
  if (world.rank() == 1) group->recv(ones(9375), 0, TrafficKind::payload)->wait();
  world.group->barrier();
  return seconds_since(start) >= 3 ? "in its own time" : "early";
});

TEST(Processes, ExcuseTransferTimeToRanksThatHaveNoPartInIt) {
  expect_all_end_with(run_processes(3, {"transfer"}, {.timeout_s = 1.5}),
                      std::vector<std::string>(3, "in its own time"));
  const auto apart = run_processes(3, {"transfer"}, {.timeout_s = 1.5, .clock_step_s = 1000});
  if (!may_set_clocks(apart)) GTEST_SKIP() << "a time namespace takes rights this process does not have";
  expect_all_end_with(apart, std::vector<std::string>(3, "in its own time"));
}

// Rank 2 of 4 does not live on; what the others are at has nothing to do with it for some of them.
const ProcessMain kLoss("loss", [](World& world, const Arguments& how) {
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

TEST(Processes, ThatAreKilledAreNamedToAllOthersAtOnce) {
  const auto all = run_processes(4, {"loss", "killed"}, {.timeout_s = 600, .limit_s = 30});
  EXPECT_EQ(all[2].signal, SIGKILL);
  EXPECT_TRUE(all[2].in_time);
  for (int rank : {0, 1, 3}) {
    EXPECT_EQ(all[rank].code, 0);
    EXPECT_EQ(all[rank].text, "PeerLost 2: rank 2 was lost: its connection closed");
  }
}

TEST(Processes, ThatThrowAreNamedToAllOthersWithTheirWords) {
  const auto all = run_processes(4, {"loss", "thrown"}, {.timeout_s = 600, .limit_s = 30});
  EXPECT_EQ(all[2].code, 1);
  EXPECT_EQ(all[2].text, "error: out of luck");
  for (int rank : {0, 1, 3}) {
    EXPECT_EQ(all[rank].code, 0);
    EXPECT_EQ(all[rank].text, "PeerLost 2: rank 2 was lost: out of luck");
  }
}

TEST(Processes, ThatFailBecauseOfAnotherBlameThatOne) {
  const auto all = run_processes(4, {"loss", "uncaught"}, {.timeout_s = 600, .limit_s = 30});
  for (int rank : {0, 1, 3}) {
    EXPECT_EQ(all[rank].code, 1);
    EXPECT_EQ(all[rank].text, "error: rank 2 was lost: out of luck");
  }
}

const ProcessMain kStuck("stuck", [](World& world, const Arguments& how) {
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

TEST(Processes, ThatAreStuckAreATimeoutOnAllOthers) {
  for (const char* how : {"busy", "stopped"})
    expect_all_end_with(run_processes(3, {"stuck", how}, {.timeout_s = 2, .limit_s = 60}),
                        std::vector<std::string>(3, "Timeout 1: nothing came from rank 1 for 2.0 s"));
}

const ProcessMain kEarly("early", [](World& world, const Arguments&) -> std::string {
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

TEST(Processes, ThatEndInPeaceAreNotLostAndWhatTheySentArrives) {
  expect_all_end_with(run_processes(3, {"early"}), {"gone", "sevens", "sevens"});
}

const ProcessMain kEndless("endless", [](World& world, const Arguments&) -> std::string {
  if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::hours(1));
  return "done";
});

TEST(Processes, ThatDoNotEndInTimeAreKilled) {
  const auto all = run_processes(2, {"endless"}, {.limit_s = 5});
  EXPECT_EQ(all[0].text, "done");
  EXPECT_TRUE(all[0].in_time);
  EXPECT_FALSE(all[1].in_time);
  EXPECT_EQ(all[1].signal, SIGKILL);
}

// A transport, rank 0 of 2, and whatever rank 1 writes.
struct Stranger {
  explicit Stranger(const std::function<void(Stranger&)>& says) {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    says(*this);
  }
  ~Stranger() { hang_up(); }
  void hang_up() {
    if (pair[1] >= 0) ::close(std::exchange(pair[1], -1));
  }
  void say(const Header& header, const std::string& bytes = {}) {
    const std::string all = std::string(reinterpret_cast<const char*>(&header), sizeof header) + bytes;
    EXPECT_EQ(::write(pair[1], all.data(), all.size()), std::ssize(all));
  }
  void greet() { say({.kind = Header::hello, .tag = 1}); }
  // Once: the socket is the transport's then.
  std::shared_ptr<SocketTransport> connect(double timeout_s = 60, double connect_s = 60) {
    return SocketTransport::connect(0, {-1, pair[0]}, timeout_s, connect_s);
  }
  int pair[2];
};

TEST(SocketTransport, AFrameThatMakesNoSenseIsTheLossOfItsSender) {
  const std::pair<Header, std::string> wrong[] = {
      {{.magic = 7, .tag = 3}, "kind 2, tag 3, 0 bytes"},
      {{.kind = Header::Kind{99}}, "kind 99, tag 0, 0 bytes"},
      {{.kind = Header::hello, .tag = 1}, "kind 1, tag 1, 0 bytes"},  // again
      {{.tag = -1}, "kind 2, tag -1, 0 bytes"},
      {{.size = Header::kMostBytes + 1}, "kind 2, tag 0, 4294967297 bytes"},
      {{.kind = Header::excuse, .tag = -5}, "kind 3, tag -5, 0 bytes"},
      {{.kind = Header::excuse, .tag = int64_t{1} << 62}, "kind 3, tag 4611686018427387904, 0 bytes"},
      {{.kind = Header::lost, .tag = 2}, "kind 4, tag 2, 0 bytes"},
      {{.kind = Header::late, .tag = 0, .size = 3}, "kind 5, tag 0, 3 bytes"},
  };
  for (auto& [header, about] : wrong) {
    Stranger stranger([&](Stranger& s) { s.greet(), s.say(header); });
    const auto transport = stranger.connect();
    EXPECT_EQ(error_each_time([&] { transport->recv(ones(1), 1, 0)->wait(); }),
              "PeerLost 1: rank 1 was lost: it sent a frame that makes no sense: " + about);
  }
}

TEST(SocketTransport, ARankIsNotTakenForAnother) {
  Stranger stranger([](Stranger& s) { s.say({.kind = Header::hello, .tag = 0}); });
  EXPECT_EQ(error_of([&] { stranger.connect(); }),
            "PeerLost 1: rank 1 was lost: it sent a frame that makes no sense: kind 1, tag 0, 0 bytes");
}

TEST(SocketTransport, ATagThatComesTwiceIsTheLossOfItsSender) {
  Stranger stranger([](Stranger& s) { s.greet(); });
  const auto transport = stranger.connect();
  for (int i = 0; i < 2; ++i) stranger.say({.tag = 5, .size = 1}, "x");
  EXPECT_EQ(error_each_time([&] { transport->recv(ones(1), 1, 0)->wait(); }),
            "PeerLost 1: rank 1 was lost: [comm] rank 1 sent tag 5 to rank 0 twice");
}

TEST(SocketTransport, AMessageThatBreaksOffIsTheLossOfItsSender) {
  Stranger stranger([](Stranger& s) { s.greet(), s.say({.size = 100}, "ten bytes."), s.hang_up(); });
  const auto transport = stranger.connect();
  EXPECT_EQ(error_each_time([&] { transport->recv(ones(25), 1, 0)->wait(); }),
            "PeerLost 1: rank 1 was lost: its connection closed");
}

TEST(SocketTransport, ARankThatNeverComesIsATimeout) {
  Stranger stranger([](Stranger&) {});
  EXPECT_EQ(error_of([&] { stranger.connect(0.1, 0.3); }), "Timeout 1: nothing came from rank 1 for 0.3 s");
}

TEST(SocketTransport, AWaitThatThrowsGivesTheSenderItsMemoryBack) {
  Stranger stranger([](Stranger& s) { s.greet(); });  // and does not read
  const auto transport = stranger.connect(0.2);
  at::Tensor begun = ones(1'000'000), queued = ones(1'000'000);
  const auto first = transport->send(begun, 1, 0), second = transport->send(queued, 1, 1);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(first->done());
  transport->fail(0, "tired");
  for (auto& work : {first, second})
    EXPECT_EQ(error_each_time([&] { work->wait(); }), "PeerLost 0: rank 0 was lost: tired");
  EXPECT_EQ(begun.use_count(), 1);
  EXPECT_EQ(queued.use_count(), 1);
}

TEST(SocketTransport, ARankCanWriteToItself) {
  const auto transport = SocketTransport::connect(0, {-1}, 60);
  at::Tensor got = ones(3);
  const auto sent = transport->send(at::full({3}, 5.0f), 0, 1), empty = transport->send(ones(0), 0, 2);
  transport->recv(got, 0, 1)->wait();
  transport->recv(ones(0), 0, 2)->wait();
  sent->wait(), empty->wait();
  EXPECT_EQ(got[2].item<float>(), 5);
}

}  // namespace
}  // namespace thinwire::comm
