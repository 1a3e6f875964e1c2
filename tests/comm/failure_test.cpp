#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <thread>

#include "thinwire/base/errors.h"
#include "thinwire/comm/errors.h"
#include "thinwire/comm/keep_alive.h"
#include "thinwire/comm/world.h"

namespace thinwire::comm {
namespace {

struct Unlucky : std::runtime_error {
  Unlucky() : std::runtime_error("out of luck\nsecond line") {}
};

at::Tensor ones(int64_t n) { return at::empty({n}, at::kFloat).fill_(1); }

void expect_lost(int rank, const std::function<void()>& wait) {
  try {
    wait();
    ADD_FAILURE() << "did not throw";
  } catch (const PeerLost& lost) {
    EXPECT_EQ(lost.rank, rank);
    EXPECT_EQ(std::string(lost.what()), "rank " + std::to_string(rank) + " was lost: out of luck");
  }
}

// Rank 2 of 4 makes `prepare` like all others, then throws; the others must find it lost in `wait`.
void rank_2_throws(const std::function<std::function<void()>(std::shared_ptr<TransportGroup>)>& prepare) {
  std::atomic<int> seen = 0;
  std::latch prepared(4);
  EXPECT_THROW(run_world(4,
                         [&](std::shared_ptr<TransportGroup> world) {
                           auto wait = prepare(world);
                           prepared.arrive_and_wait();
                           if (world->rank() == 2) throw Unlucky();
                           expect_lost(2, wait), expect_lost(2, wait);
                           ++seen;
                         }),
               Unlucky);
  EXPECT_EQ(seen, 3);
}

TEST(Failure, ARankThatThrowsIsLostToEveryRankThatWaits) {
  rank_2_throws(
      [](auto world) { return [=] { world->all_reduce_(ones(100), Reduce::sum, TrafficKind::payload)->wait(); }; });
}

TEST(Failure, ARankThatWritesToASlowDiskIsWaitedForBeyondTheTimeout) {
  run_threads(2,
              [](World& world) {
                if (world.rank() == 1) {
                  const KeepAlive writing(world.group->transport());
                  std::this_thread::sleep_for(std::chrono::milliseconds(3500));
                }
                world.group->barrier();
              },
              {.timeout_s = 0.5});
}

TEST(Failure, EveryCollectiveEnds) {
  using Call = std::function<void(Group&)>;
  for (const Call& call : {
           Call([](Group& g) { g.all_gather(ones(40), ones(10))->wait(); }),
           Call([](Group& g) { g.reduce_scatter(ones(10), ones(40), Reduce::max)->wait(); }),
           Call([](Group& g) { g.all_to_all(ones(40), ones(40))->wait(); }),
           Call([](Group& g) { g.broadcast_(ones(40), 2)->wait(); }),
           Call([](Group& g) { g.broadcast_(ones(40), 0)->wait(); }),
           Call([](Group& g) { g.barrier(); }),
           Call([](Group& g) { g.split(0, 0); }),
       })
    rank_2_throws([&](auto world) { return [&call, world] { call(*world); }; });
}

TEST(Failure, WhatIsInFlightEndsToo) {
  rank_2_throws([](auto world) {
    std::vector<WorkPtr> works;
    for (int i = 0; i < 20; ++i) works.push_back(world->all_reduce_(ones(1000), Reduce::sum, TrafficKind::payload));
    if (world->rank() != 2)  // rank 2 brings nothing to these
      for (int i = 0; i < 20; ++i) works.push_back(world->broadcast_(ones(1000), i % 4, TrafficKind::payload));
    return [works] { works.back()->wait(); };
  });
}

TEST(Failure, IsSeenInEverySplitWhateverItsMembers) {
  rank_2_throws([](auto world) {
    GroupPtr pair = world->split(world->rank() / 2, 0);  // ranks 0 and 1 share nothing with rank 2 there
    if (world->rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return [=] {
      if (world->rank() == 1) return world->barrier();
      pair->all_reduce_(ones(10), Reduce::sum)->wait();
    };
  });
}

TEST(Failure, IsSeenInAGroupOverAnotherMail) {
  rank_2_throws([](auto world) {
    auto group = world->with_transport(world->transport());
    auto all = group->split(0, -group->rank());
    return [=] { all->all_reduce_(ones(10), Reduce::sum)->wait(); };
  });
}

TEST(Failure, AnExceptionOfAnyTypeIsCarriedOut) {
  try {
    run_world(2, [](GroupPtr world) {
      if (world->rank() == 1) throw 7;
      EXPECT_THROW(world->barrier(), PeerLost);
    });
    FAIL() << "did not throw";
  } catch (int number) {
    EXPECT_EQ(number, 7);
  }
}

TEST(Failure, OfSeveralTheWorldThrowsTheFirst) {
  for (int round = 0; round < 20; ++round)
    EXPECT_THROW(run_world(4,
                           [](GroupPtr world) {
                             if (world->rank() == 3) throw Unlucky();
                             world->barrier();
                           }),
                 Unlucky);
}

TEST(Failure, AWrongOptionOfTheWorldIsAnErrorOfTheWorld) {
  EXPECT_THROW(run_world(2, [](GroupPtr) {}, {.threads = 0}), c10::Error);
  EXPECT_THROW(run_world(0, [](GroupPtr) {}), c10::Error);
}

TEST(Failure, ARankMayEndWithWorkInFlight) {
  for (int root : {0, 1, 2})
    run_world(3, [&](GroupPtr world) {
      at::Tensor x = ones(5000), y = ones(5000);
      auto sum = world->all_reduce_(x, Reduce::sum), copy = world->broadcast_(y, root);
      if (world->rank() == 1) return;
      sum->wait(), copy->wait();
      EXPECT_EQ(x.sum().item<float>(), 15000);
    });
}

TEST(Failure, WorkOutlivesItsWorld) {
  std::vector<WorkPtr> works(2);
  run_world(2, [&](GroupPtr world) { works[world->rank()] = world->all_reduce_(ones(10), Reduce::sum); });
  for (auto& work : works) {
    EXPECT_TRUE(work->done());
    work->wait();
  }
}

TEST(Failure, RanksThatDisagreeAboutASizeGetAnError) {
  try {
    run_world(2, [](GroupPtr world) { world->all_reduce_(ones(world->rank() ? 10 : 12), Reduce::sum)->wait(); });
    FAIL() << "did not throw";
  } catch (const c10::Error& error) {
    EXPECT_NE(one_line(error).find(": the ranks are not making the same calls"), std::string::npos) << error.what();
  }
}

// One rank does nothing until all others have seen that it is late.
void rank_1_is_stuck(int ranks, const std::function<void(Group&)>& call) {
  std::latch seen(ranks - 1);
  run_world(ranks,
            [&](GroupPtr world) {
              if (world->rank() == 1) return seen.wait();
              for (int again = 0; again < 2; ++again) {
                try {
                  call(*world);
                  ADD_FAILURE() << "did not throw";
                } catch (const Timeout& late) {
                  EXPECT_EQ(late.rank, 1);
                  EXPECT_EQ(late.seconds, 0.2);
                  EXPECT_STREQ(late.what(), "nothing came from rank 1 for 0.2 s");
                }
              }
              seen.count_down();
            },
            {.timeout_s = 0.2});
}

TEST(Stuck, ARankThatSendsNothingIsATimeoutThatNamesIt) {
  rank_1_is_stuck(3, [](Group& world) { world.all_reduce_(ones(100), Reduce::sum)->wait(); });
  rank_1_is_stuck(3, [](Group& world) { world.all_gather(ones(30), ones(10))->wait(); });
  rank_1_is_stuck(4, [](Group& world) { world.barrier(); });
}

TEST(Stuck, TheRootOfABroadcastNoticesToo) {
  rank_1_is_stuck(2, [](Group& world) { world.broadcast_(ones(100), 0)->wait(); });
  rank_1_is_stuck(3, [](Group& world) { world.broadcast_(ones(100), 0)->wait(); });
}

TEST(Stuck, ATimeoutThatEndsARankIsWhatTheWorldThrows) {
  std::latch over(2);
  try {
    run_world(3,
              [&](GroupPtr world) {
                if (world->rank() == 1) return over.wait();
                struct AtEnd {
                  std::latch& latch;
                  ~AtEnd() { latch.count_down(); }
                } at_end{over};
                world->barrier();
              },
              {.timeout_s = 0.2});
    FAIL() << "did not throw";
  } catch (const Timeout& late) {
    EXPECT_EQ(late.rank, 1);
  }
}

}  // namespace
}  // namespace thinwire::comm
