#include "tests/comm/processes.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/comm/errors_of.h"
#include "tests/comm/socket_transport.h"

namespace thinwire::comm {
namespace {

using std::chrono::milliseconds;

at::Tensor ones(int64_t n) { return at::full({n}, 1.0f); }

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

TEST(Processes, GiveTheSameBitsAsThreadsInEveryCollective) {
  for (int size : {1, 2, 5}) {
    const auto texts = run_as_threads(size, {"collectives"});
    EXPECT_GT(std::ranges::count(texts[0], '\n'), 3 * 3 * 4 * 8);
    expect_all_end_with(run_processes(size, {"collectives"}), texts);
  }
}

TEST(Processes, ExchangeBytesAndErrorsAsThreadsDo) {
  const auto texts = run_as_threads(3, {"world"});
  EXPECT_TRUE(texts[0].starts_with("rank 0\nrank 2\n\n"));
  EXPECT_NE(texts[0].find("rank 0\nrank 1\nrank 2\n0 "), std::string::npos) << "gathered in rank order";
  EXPECT_TRUE(texts[1].ends_with("no error\nfrom 0: rank 0: disk full\nfrom 2: rank 2: disk full\n"));
  EXPECT_TRUE(texts[2].ends_with("no error\nfrom 0: rank 0: disk full\nown: disk full\n"));
  expect_all_end_with(run_processes(3, {"world"}), texts);
}

const RankMain kDisk("disk", [](World& world, const Arguments&) -> std::string {
  return world.shares_disk ? "shared" : "its own";
});

TEST(Processes, DoNotClaimToShareADisk) { expect_all_end_with(run_processes(2, {"disk"}), {"its own", "its own"}); }

TEST(Processes, FindTheOffsetsOfTheirClocks) {
  expect_all_end_with(run_processes(3, {"clocks"}), {"0 0 0 ", "", ""});
  const auto apart = run_processes(3, {"clocks"}, {.clock_step_s = 1000});
  if (!may_set_clocks(apart)) GTEST_SKIP() << "a time namespace takes rights this process does not have";
  expect_all_end_with(apart, {"0 -1000 -2000 ", "", ""});
}

// Where clocks are far apart, a due time that was not relative would have passed, or be for ever away.
TEST(Processes, TakeTheTimeOfAnEmulatedLinkWhateverTheirClocks) {
  const std::vector<std::string> texts(4, "sum 128000");
  expect_all_end_with(run_processes(4, {"link"}), texts);
  const auto apart = run_processes(4, {"link"}, {.limit_s = 60, .clock_step_s = 1000});
  if (!may_set_clocks(apart)) GTEST_SKIP() << "a time namespace takes rights this process does not have";
  expect_all_end_with(apart, texts);
}

TEST(Processes, ExcuseTransferTimeToRanksThatHaveNoPartInIt) {
  expect_all_end_with(run_processes(3, {"transfer"}, {.timeout_s = 1.5}),
                      std::vector<std::string>(3, "in its own time"));
  const auto apart = run_processes(3, {"transfer"}, {.timeout_s = 1.5, .clock_step_s = 1000});
  if (!may_set_clocks(apart)) GTEST_SKIP() << "a time namespace takes rights this process does not have";
  expect_all_end_with(apart, std::vector<std::string>(3, "in its own time"));
}

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

TEST(Processes, ThatAreStuckAreATimeoutOnAllOthers) {
  for (const char* how : {"busy", "stopped"})
    expect_all_end_with(run_processes(3, {"stuck", how}, {.timeout_s = 2, .limit_s = 60}),
                        std::vector<std::string>(3, "Timeout 1: nothing came from rank 1 for 2.0 s"));
}

TEST(Processes, ThatWaitForOneThatIsStuckAreNotBlamedForIt) {
  const auto all = run_processes(3, {"chain"}, {.timeout_s = 2, .limit_s = 60});
  for (int rank : {0, 2}) EXPECT_EQ(all[rank].text, "Timeout 1: nothing came from rank 1 for 2.0 s") << "rank " << rank;
}

TEST(Processes, ThatEndInPeaceAreNotLostAndWhatTheySentArrives) {
  expect_all_end_with(run_processes(3, {"early"}), {"gone", "sevens", "sevens"});
}

const RankMain kEndless("endless", [](World& world, const Arguments&) -> std::string {
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
  std::shared_ptr<FramedTransport> connect(double timeout_s = 60, double connect_s = 60) {
    return connect_sockets(0, {-1, pair[0]}, timeout_s, connect_s);
  }
  int pair[2];
};

TEST(SocketTransport, AFrameThatMakesNoSenseIsTheLossOfItsSender) {
  const std::pair<Header, std::string> wrong[] = {
      {{.magic = 7, .tag = 3}, "kind 2, tag 3, 0 bytes"},
      {{.kind = Header::Kind{99}}, "kind 99, tag 0, 0 bytes"},
      {{.kind = Header::hello, .tag = 1}, "kind 1, tag 1, 0 bytes"},  // again
      {{.tag = -1}, "kind 2, tag -1, 0 bytes"},
      {{.size = Header::kMaxBytes + 1}, "kind 2, tag 0, 4294967297 bytes"},
      {{.kind = Header::extend, .tag = -5}, "kind 3, tag -5, 0 bytes"},
      {{.kind = Header::extend, .tag = int64_t{1} << 62}, "kind 3, tag 4611686018427387904, 0 bytes"},
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

TEST(SocketTransport, ARankThatRunsSomethingElseIsRefusedByName) {
  Stranger stranger([](Stranger& s) { s.say({.kind = Header::hello, .tag = 1, .size = 16}, "b\nthinwire 0.0.9"); });
  const auto connect = [&] {
    connect_sockets(0, {-1, stranger.pair[0]}, 60, 60, {.host = "a", .build = "thinwire 0.1.0"});
  };
  EXPECT_EQ(error_of(connect),
            "PeerLost 1: rank 1 (host b) was lost: it runs thinwire 0.0.9, rank 0 runs thinwire 0.1.0: all ranks must "
            "run the same");
}

TEST(SocketTransport, ALossNamesTheHost) {
  Stranger stranger([](Stranger& s) { s.say({.kind = Header::hello, .tag = 1, .size = 2}, "b\n"), s.hang_up(); });
  const auto transport = stranger.connect();
  EXPECT_EQ(error_each_time([&] { transport->recv(ones(1), 1, 0)->wait(); }),
            "PeerLost 1: rank 1 (host b) was lost: its connection closed");
}

TEST(SocketTransport, ItsTimeoutCanBeSetLater) {
  Stranger stranger([](Stranger& s) { s.greet(); });
  const auto transport = stranger.connect(600);
  transport->set_timeout(0.1);
  EXPECT_EQ(error_of([&] { transport->recv(ones(1), 1, 0)->wait(); }), "Timeout 1: nothing came from rank 1 for 0.1 s");
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
  const auto transport = connect_sockets(0, {-1}, 60);
  at::Tensor got = ones(3);
  const auto sent = transport->send(at::full({3}, 5.0f), 0, 1), empty = transport->send(ones(0), 0, 2);
  transport->recv(got, 0, 1)->wait();
  transport->recv(ones(0), 0, 2)->wait();
  sent->wait(), empty->wait();
  EXPECT_EQ(got[2].item<float>(), 5);
}

}  // namespace
}  // namespace thinwire::comm
