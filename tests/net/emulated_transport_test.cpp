#include "thinwire/net/emulated_transport.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <latch>
#include <thread>

#include "thinwire/base/errors.h"
#include "thinwire/comm/errors.h"
#include "thinwire/comm/threads.h"
#include "thinwire/comm/world.h"

namespace thinwire::net {
namespace {

using comm::GroupPtr;
using comm::Reduce;
using comm::TrafficKind;
using comm::TransportGroup;
using comm::WorkPtr;
using World = std::shared_ptr<TransportGroup>;

const Link kSlow{.rate = 1e6};   // 125 kB/s
const Link kEndless{.rate = 1};  // a kilobyte takes more than two hours
// Due times count from when a note was handed over: as late as a busy thread is between two lines.
constexpr double kOnTime = 5e-3;
const Link kFar{.rate = 1e9, .latency = 0.05};

World emulated(const World& world, Link link) {
  return world->with_transport(std::make_shared<EmulatedTransport>(world->transport(), link));
}

at::Tensor bytes(int64_t n, int value = 1) { return at::empty({n}, at::kByte).fill_(value); }
at::Tensor ones(int64_t n) { return at::empty({n}, at::kFloat).fill_(1); }

// A mail that does not sleep but writes down until when it should have: emulated time without real time.
class Sleepless final : public comm::WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  void sleep_until(Clock::time_point when) override { due.push_back(when); }

  std::vector<Clock::time_point> due;
};

struct Wire {  // the transports of some ranks, over one link
  explicit Wire(int size, Link link) {
    for (auto& mail : comm::thread_transports(size, 60)) {
      inner.push_back(std::make_shared<Sleepless>(mail));
      transports.push_back(std::make_shared<EmulatedTransport>(inner.back(), link));
    }
  }
  // When a message of n bytes, posted now, is due.
  void post(int from, int to, int64_t n) {
    pending.push_back({transports[from]->send(bytes(n), to, tag), from, to, n, tag}), ++tag;
  }
  // The due times of all that was posted, in the order it was.
  std::vector<Clock::time_point> due() {
    std::vector<Clock::time_point> times;
    for (auto& p : pending) {
      transports[p.to]->recv(bytes(p.n), p.from, p.tag)->wait();
      p.post->wait();
      times.push_back(inner[p.to]->due.back());
    }
    return times;
  }

  struct Pending {
    WorkPtr post;
    int from, to;
    int64_t n, tag;
  };
  std::vector<std::shared_ptr<Sleepless>> inner;
  std::vector<std::shared_ptr<EmulatedTransport>> transports;
  std::vector<Pending> pending;
  int64_t tag = 0;
};

TEST(EmulatedTransport, AMessageIsDueOneTransferAndOneLatencyAfterItWasPosted) {
  Wire wire(2, {8e6, 3.0});
  const auto before = Clock::now();
  wire.post(0, 1, 500'000);
  const auto after = Clock::now();
  const auto due = wire.due()[0];
  EXPECT_GE(due, before + to_duration(3.5));
  EXPECT_LE(due, after + to_duration(3.5));
}

TEST(EmulatedTransport, MessagesOfOneRankLeaveOneAfterAnotherWhoeverTheyAreFor) {
  Wire wire(3, {8e6, 3.0});
  wire.post(0, 1, 1'000'000), wire.post(0, 2, 500'000), wire.post(0, 1, 0), wire.post(0, 2, 250'000);
  const auto due = wire.due();
  EXPECT_NEAR(seconds_between(due[0], due[1]), 0.5, kOnTime) << "the latency is added once a message, not once a queue";
  EXPECT_NEAR(seconds_between(due[1], due[2]), 0, kOnTime);
  EXPECT_NEAR(seconds_between(due[2], due[3]), 0.25, kOnTime);
}

TEST(EmulatedTransport, EachRankHasAnUplinkOfItsOwn) {
  Wire wire(3, {8e6, 0});
  const auto before = Clock::now();
  wire.post(0, 2, 60'000'000), wire.post(1, 2, 60'000'000);
  const auto after = Clock::now();
  for (auto due : wire.due()) {
    EXPECT_GE(due, before + to_duration(60));
    EXPECT_LE(due, after + to_duration(60));
  }
}

TEST(EmulatedTransport, AnIdleUplinkKeepsNoCredit) {
  Wire wire(2, {8e6, 0});
  wire.post(0, 1, 1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto before = Clock::now();
  wire.post(0, 1, 1'000'000);
  EXPECT_GE(wire.due()[1], before + to_duration(1));
}

TEST(EmulatedTransport, NoLinkAddsNothing) {
  Wire wire(2, {});
  wire.post(0, 1, 1 << 20), wire.post(0, 1, 1 << 20);
  const auto after = Clock::now();
  for (auto due : wire.due()) EXPECT_LE(due, after);
}

TEST(EmulatedTransport, WhatTwoRanksSendSharesTheReceiversDownlink) {
  Wire wire(3, {.rate = 8e6, .down = 8e6});
  const auto before = Clock::now();
  wire.post(0, 2, 2'000'000), wire.post(1, 2, 2'000'000);
  const auto due = wire.due();
  EXPECT_GE(due[0], before + to_duration(2));
  EXPECT_GE(due[1], before + to_duration(4)) << "both left at once, but they come in one after the other";
}

TEST(EmulatedTransport, AFasterDownlinkThanUplinkAddsNothing) {
  Wire wire(2, {.rate = 8e6, .down = 80e6});
  wire.post(0, 1, 1'000'000), wire.post(0, 1, 1'000'000);
  const auto due = wire.due();
  EXPECT_NEAR(seconds_between(due[0], due[1]), 1, kOnTime);
}

TEST(EmulatedTransport, JitterIsDrawnForEachMessageAndIsTheSameAgain) {
  const Link link{.latency = 1, .jitter = 0.5};
  Wire wire(2, link), again(2, link);
  const auto before = Clock::now();
  for (int i = 0; i < 50; ++i) wire.post(0, 1, 8), again.post(0, 1, 8);
  const auto after = Clock::now();
  const auto first = wire.due(), second = again.due();
  double least = 9, most = 0;
  for (int i = 0; i < 50; ++i) {
    const double extra = seconds_between(after, first[i]) - 1;
    least = std::min(least, extra), most = std::max(most, extra);
    EXPECT_LE(extra, 0.5);
    EXPECT_GE(seconds_between(before, first[i]), 1);
    EXPECT_NEAR(seconds_between(first[i], second[i]), 0, seconds_between(before, after) + kOnTime);
  }
  EXPECT_GT(most - least, 0.3) << "they differ";
}

TEST(EmulatedTransport, NothingLeavesDuringAnOutage) {
  Link link;
  from_text("8mbit, at 0s down 30s", link);
  Wire wire(2, link);
  const auto before = Clock::now();
  wire.post(0, 1, 1'000'000);
  EXPECT_GE(wire.due()[0], before + to_duration(30.9));
}

TEST(EmulatedTransport, RestsInRealTime) {
  comm::run_world(2, [](World world) {
    EmulatedTransport mail(world->transport(), kSlow);
    const int other = 1 - world->rank();
    world->barrier();
    const auto start = Clock::now();
    auto one = mail.send(bytes(6250), other, int64_t{1} << 50), two = mail.send(bytes(6250), other, int64_t{2} << 50);
    mail.recv(bytes(6250), other, int64_t{1} << 50)->wait();
    mail.recv(bytes(6250), other, int64_t{2} << 50)->wait();
    one->wait(), two->wait();
    world->barrier();
    EXPECT_GE(seconds_since(start), 0.1);
  });
}

TEST(EmulatedTransport, IsDoneWhenTheMessageIsDue) {
  comm::run_world(2, [](World world) {
    EmulatedTransport mail(world->transport(), kSlow);
    constexpr int64_t tag = int64_t{1} << 50;
    const auto start = Clock::now();
    world->barrier();
    if (world->rank() == 0) return mail.send(bytes(6250, 8), 1, tag)->wait();
    at::Tensor got = bytes(6250, 0);
    auto take = mail.recv(got, 0, tag);
    while (!take->done()) std::this_thread::yield();
    EXPECT_GE(seconds_since(start), 0.05);
    take->wait(), take->wait();
    EXPECT_EQ(got[6249].item<uint8_t>(), 8);
  });
}

TEST(EmulatedTransport, DoesNotWrapAnother) {
  auto transports = comm::thread_transports(2, 60);
  auto outer = EmulatedTransport(std::make_shared<EmulatedTransport>(transports[0], kSlow), kSlow);
  try {
    outer.send(bytes(1), 1, 0);
    FAIL() << "did not throw";
  } catch (const c10::Error& error) {
    EXPECT_EQ(one_line(error), "[net] an emulated transport cannot be put around another one");
  }
}

TEST(EmulatedGroup, ACollectiveTakesAtLeastItsTransfersAndLatencies) {
  comm::run_world(4, [](World world) {
    const double rate = 8e6;
    auto group = emulated(world, {rate, 0.02});
    at::Tensor x = ones(8000);
    world->barrier();
    const auto start = Clock::now();
    group->all_reduce_(x, Reduce::sum, TrafficKind::payload)->wait();
    world->barrier();
    EXPECT_GE(seconds_since(start), 2 * 3 * 8000 * 8 / rate + 2 * 0.02);
    EXPECT_EQ(x[7999].item<float>(), 4);
  });
}

TEST(EmulatedGroup, SplitsShareTheUplink) {
  comm::run_world(2, [](World world) {
    auto group = emulated(world, kSlow);
    GroupPtr one = group->split(0, 0), two = group->split(0, 0);
    at::Tensor a = bytes(2 * 6250), b = bytes(2 * 6250), mine = bytes(6250);
    world->barrier();
    const auto start = Clock::now();
    auto first = one->all_gather(a, mine), second = two->all_gather(b, mine);
    second->wait(), first->wait();
    world->barrier();
    EXPECT_GE(seconds_since(start), 0.1);
  });
}

TEST(EmulatedGroup, CollectivesGiveTheSameBitsAsWithoutALink) {
  auto run = [](bool slow) {
    std::vector<at::Tensor> results(4);
    comm::run_world(4, [&](World world) {
      GroupPtr group = slow ? emulated(world, {200e6, 0.001}) : world;
      const int me = world->rank();
      at::Tensor x = at::empty({1027}, at::kFloat), y = at::empty({1027}, at::kFloat),
                 all = at::empty({4 * 1027}, at::kFloat), turned = at::empty({4 * 1027}, at::kFloat),
                 part = at::empty({1027}, at::kFloat);
      for (int i = 0; i < 1027; ++i) x[i] = 1.0f / (1 + i + 31 * me), y[i] = static_cast<float>(i * (me + 1)) / 7;
      std::vector<WorkPtr> works = {group->all_reduce_(x, Reduce::mean), group->broadcast_(y, 2)};
      for (auto& work : works) work->wait();
      group->all_gather(all, x.mul_(1 + me))->wait();
      group->all_to_all(turned, all)->wait();
      group->reduce_scatter(part, turned, Reduce::sum)->wait();
      group->barrier();
      at::Tensor result = at::empty({3, 1027}, at::kFloat);
      result[0].copy_(x), result[1].copy_(y), result[2].copy_(part);
      results[me] = result;
    });
    return results;
  };
  const auto fast = run(false), slow = run(true);
  for (int r = 0; r < 4; ++r)
    EXPECT_EQ(std::memcmp(fast[r].const_data_ptr(), slow[r].const_data_ptr(), fast[r].nbytes()), 0) << "rank " << r;
}

TEST(EmulatedGroup, ItsMessagesAndThoseOfPlainGroupsDoNotMix) {
  comm::run_world(2, [](World world) {
    std::vector<GroupPtr> groups = {world};
    for (int i = 0; i < 4; ++i) {
      groups.push_back(emulated(world, {1e9, 0.001}));
      groups.push_back(world->split(0, 0));
      groups.push_back(groups[groups.size() - 2]->split(0, world->rank()));
    }
    std::vector<at::Tensor> sums;
    std::vector<WorkPtr> works;
    for (int64_t round = 0; round < 12; ++round)
      for (size_t g = 0; g < groups.size(); ++g) {
        sums.push_back(at::empty({6}, at::kLong).fill_(1000 * round + static_cast<int64_t>(g)));
        works.push_back(groups[g]->all_reduce_(sums.back(), Reduce::sum));
      }
    for (size_t i = 0; i < works.size(); ++i) {
      works[i]->wait();
      const int64_t round = i / groups.size(), g = i % groups.size();
      for (int k = 0; k < 6; ++k) EXPECT_EQ(sums[i][k].item<int64_t>(), 2 * (1000 * round + g));
    }
  });
}

TEST(EmulatedGroup, TheLedgerCountsTheMessagesAndNothingOfTheEmulation) {
  comm::run_world(3, [](World world) {
    auto group = emulated(world, kFar);
    group->all_gather(bytes(300), bytes(100), TrafficKind::payload)->wait();
    EXPECT_EQ(group->ledger().sent(), 200);
    EXPECT_EQ(group->ledger().received(), 200);
    EXPECT_EQ(world->ledger().sent(TrafficKind::payload), 0);
  });
}

TEST(EmulatedGroup, AFailureEndsARest) {
  struct Unlucky {};
  for (bool split : {false, true}) {
    std::atomic<int> seen = 0;
    auto rank_main = [&](World world) {
      GroupPtr group = emulated(world, kEndless);
      if (split) {
        // Every split is made over the slow wire, so over a fast one first.
        group = emulated(world, {1e9, 0})->split(world->rank() / 2, 0);
        group = std::static_pointer_cast<TransportGroup>(group)->with_transport(
            std::make_shared<EmulatedTransport>(world->transport(), kEndless));
      }
      std::vector<WorkPtr> works;
      for (int i = 0; i < 5; ++i) {
        works.push_back(group->all_reduce_(ones(1000), Reduce::sum));
        works.push_back(group->broadcast_(ones(1000), 0));
      }
      world->barrier();
      if (world->rank() == 3) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));  // let the others rest
        throw Unlucky();
      }
      for (auto& work : works) {
        try {
          work->wait();
          ADD_FAILURE() << "did not throw";
        } catch (const comm::PeerLost& lost) {
          EXPECT_EQ(lost.rank, 3);
        }
      }
      ++seen;
    };
    EXPECT_THROW(comm::run_world(4, rank_main), Unlucky);
    EXPECT_EQ(seen, 3);
  }
}

TEST(EmulatedGroup, TransferTimeIsNoTimeout) {
  comm::run_world(
      3,
      [](World world) {
        auto group = emulated(world, {100e3, 0.1});  // 12.5 kB/s: every message below takes longer than the timeout
        at::Tensor x = ones(3 * 1250), y = ones(3 * 1250).mul_(world->rank() + 1);
        group->all_reduce_(x, Reduce::sum, TrafficKind::payload)->wait();
        EXPECT_EQ(x.sum().item<float>(), 3 * x.numel());
        // The last rank's chunk leaves the root two transfers after the first's, which by then waits for the last.
        group->broadcast_(y, 0, TrafficKind::payload)->wait();
        EXPECT_EQ(y.sum().item<float>(), y.numel());
        group->barrier();
        world->barrier();
      },
      {.timeout_s = 0.2});
}

TEST(EmulatedGroup, RanksThatAreDoneEarlyWaitForThoseThatStillReceive) {
  comm::run_world(3,
                  [](World world) {
                    auto group = emulated(world, {100e3, 0});
                    if (world->rank() == 0)
                      group->transport()->send(bytes(10'000), 1, int64_t{1} << 60)->wait();  // 0.8 s
                    if (world->rank() == 1) group->transport()->recv(bytes(10'000), 0, int64_t{1} << 60)->wait();
                    world->barrier();
                    EXPECT_EQ(world->size(), 3);
                  },
                  {.timeout_s = 0.2});
}

TEST(EmulatedGroup, AStuckRankIsATimeoutThatNamesIt) {
  std::latch seen(2);
  comm::run_world(3,
                  [&](World world) {
                    auto group = emulated(world, kFar);
                    if (world->rank() == 1) return seen.wait();
                    try {
                      group->all_reduce_(ones(1000), Reduce::sum, TrafficKind::payload)->wait();
                      ADD_FAILURE() << "did not throw";
                    } catch (const comm::Timeout& late) {
                      EXPECT_EQ(late.rank, 1);
                    }
                    seen.count_down();
                  },
                  {.timeout_s = 0.2});
}

}  // namespace
}  // namespace thinwire::net
