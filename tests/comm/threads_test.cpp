#include "thinwire/comm/threads.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <thread>

#include "thinwire/base/errors.h"
#include "thinwire/comm/errors.h"

namespace thinwire::comm {
namespace {

using std::chrono::milliseconds;

at::Tensor filled(int64_t n, int value) { return at::empty({n}, at::kByte).fill_(value); }

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return one_line(error);
  }
  return "no error";
}

TEST(ThreadTransport, CarriesBytes) {
  auto transports = thread_transports(2, 60);
  auto post = transports[0]->send(filled(1000, 7), 1, 5);
  at::Tensor got = filled(1000, 0);
  transports[1]->recv(got, 0, 5)->wait();
  post->wait();
  EXPECT_TRUE(got.eq(7).all().item<bool>());
}

TEST(ThreadTransport, MatchesBySenderAndTagInAnyOrder) {
  auto transports = thread_transports(3, 60);
  at::Tensor a = filled(1, 0), b = filled(1, 0), c = filled(1, 0);
  auto take_a = transports[2]->recv(a, 0, 1);  // before the post
  transports[0]->send(filled(1, 10), 2, 2);
  transports[1]->send(filled(1, 20), 2, 1);
  transports[0]->send(filled(1, 30), 2, 1);
  transports[2]->recv(c, 1, 1)->wait();
  transports[2]->recv(b, 0, 2)->wait();
  take_a->wait();
  EXPECT_EQ(a.item<uint8_t>(), 30);
  EXPECT_EQ(b.item<uint8_t>(), 10);
  EXPECT_EQ(c.item<uint8_t>(), 20);
}

TEST(ThreadTransport, ASenderIsDoneWhenItsMessageWasRead) {
  auto transports = thread_transports(2, 60);
  auto post = transports[0]->send(filled(4, 1), 1, 0);
  auto take = transports[1]->recv(filled(4, 0), 0, 0);
  EXPECT_FALSE(post->done());
  EXPECT_TRUE(take->done());
  take->wait(), take->wait();
  EXPECT_TRUE(post->done());
  EXPECT_TRUE(take->done());
  post->wait(), post->wait();
}

TEST(ThreadTransport, ARankCanWriteToItself) {
  auto transports = thread_transports(1, 60);
  auto post = transports[0]->send(filled(4, 9), 0, 0);
  at::Tensor got = filled(4, 0);
  transports[0]->recv(got, 0, 0)->wait();
  post->wait();
  EXPECT_EQ(got[3].item<uint8_t>(), 9);
}

TEST(ThreadTransport, AnEmptyMessageArrives) {
  auto transports = thread_transports(2, 60);
  auto post = transports[0]->send(filled(0, 0), 1, 0);
  transports[1]->recv(filled(0, 0), 0, 0)->wait();
  post->wait();
}

TEST(ThreadTransport, ManyWaitersOfOneMessageAllReturn) {
  auto transports = thread_transports(2, 60);
  at::Tensor got = filled(8, 0);
  auto take = transports[1]->recv(got, 0, 0);
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) waiters.emplace_back([&] { take->wait(); });
  auto post = transports[0]->send(filled(8, 3), 1, 0);
  for (auto& waiter : waiters) waiter.join();
  post->wait();
  EXPECT_EQ(got[7].item<uint8_t>(), 3);
}

TEST(ThreadTransport, DoneDoesNotBlockWhileAnotherThreadWaits) {
  auto transports = thread_transports(2, 60);
  auto take = transports[1]->recv(filled(8, 0), 0, 0);
  std::latch waiting(1);
  std::thread waiter([&] { waiting.count_down(), take->wait(); });
  waiting.wait();
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_FALSE(take->done());
  transports[0]->send(filled(8, 3), 1, 0);
  waiter.join();
  EXPECT_TRUE(take->done());
}

TEST(ThreadTransport, AMessageOfAnotherSizeIsAnErrorEachTimeItIsWaitedFor) {
  auto transports = thread_transports(2, 60);
  transports[0]->send(filled(3, 1), 1, 0);
  auto take = transports[1]->recv(filled(4, 0), 0, 0);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(error_of([&] { take->wait(); }),
              "[comm] rank 1 expected 4 bytes from rank 0, got 3: the ranks are not making the same calls");
}

TEST(ThreadTransport, WrongCallsSayWhatWasWanted) {
  auto transports = thread_transports(2, 60);
  transports[0]->send(filled(3, 1), 1, 4);
  EXPECT_EQ(error_of([&] { transports[0]->send(filled(3, 1), 1, 4); }), "[comm] rank 0 sent tag 4 to rank 1 twice");
  EXPECT_EQ(error_of([&] { transports[0]->send(filled(3, 1), 2, 0); }), "[comm] there is no rank 2 among 2");
  EXPECT_EQ(error_of([&] { transports[0]->recv(filled(3, 1), -1, 0); }), "[comm] there is no rank -1 among 2");
  EXPECT_EQ(error_of([&] {
              transports[0]->send(at::empty({4, 4}).t(), 1, 0);
            }),
            "[comm] a message is a contiguous CPU tensor");
  EXPECT_EQ(error_of([&] { thread_transports(0, 60); }), "[comm] a world has at least one rank, got 0");
}

TEST(ThreadTransport, AFailureEndsPendingAndLaterWaits) {
  auto transports = thread_transports(3, 60);
  auto pending_take = transports[1]->recv(filled(1, 0), 0, 0), later_take = transports[2]->recv(filled(1, 0), 0, 0);
  auto pending_post = transports[1]->send(filled(1, 0), 0, 1);
  auto expect_lost = [](auto&& wait) {
    try {
      wait();
      ADD_FAILURE() << "did not throw";
    } catch (const PeerLost& lost) {
      EXPECT_EQ(lost.rank, 2);
      EXPECT_STREQ(lost.what(), "rank 2 was lost: its fan stopped");
    }
  };
  std::latch waiting(3);
  std::thread taker([&] { waiting.count_down(), expect_lost([&] { pending_take->wait(); }); });
  std::thread poster([&] { waiting.count_down(), expect_lost([&] { pending_post->wait(); }); });
  std::thread rester([&] {
    waiting.count_down();
    expect_lost([&] { transports[0]->sleep_until(Clock::now() + std::chrono::hours(1)); });
  });
  waiting.wait();
  std::this_thread::sleep_for(milliseconds(20));
  transports[0]->fail(2, "its fan stopped");
  transports[1]->fail(0, "the first call counts");
  taker.join(), poster.join(), rester.join();
  expect_lost([&] { later_take->wait(); });
  expect_lost([&] { later_take->wait(); });
  expect_lost([&] { transports[0]->send(filled(1, 0), 1, 7)->wait(); });
  EXPECT_TRUE(later_take->done()) << "a wait that throws at once is done";
  EXPECT_TRUE(pending_post->done());
}

TEST(ThreadTransport, ATimeoutNamesTheRankThatIsLateAndEndsTheOthersWaitsToo) {
  auto transports = thread_transports(3, 0.05);
  auto expect_timeout = [](Work& work) {
    try {
      work.wait();
      ADD_FAILURE() << "did not throw";
    } catch (const Timeout& late) {
      EXPECT_EQ(late.rank, 0);
      EXPECT_EQ(late.seconds, 0.05);
      EXPECT_STREQ(late.what(), "nothing came from rank 0 for 0.1 s");
    }
  };
  auto take = transports[1]->recv(filled(1, 0), 0, 0);
  expect_timeout(*take);
  expect_timeout(*take);
  expect_timeout(*transports[1]->recv(filled(1, 0), 2, 0));
  expect_timeout(*transports[2]->send(filled(1, 0), 1, 0));
}

TEST(ThreadTransport, AMessageThatNobodyTakesIsATimeout) {
  auto transports = thread_transports(2, 0.05);
  try {
    transports[0]->send(filled(1, 0), 1, 0)->wait();
    FAIL() << "did not throw";
  } catch (const Timeout& late) {
    EXPECT_EQ(late.rank, 1);
  }
}

TEST(ThreadTransport, RestIsNotCountedAsWaiting) {
  auto transports = thread_transports(3, 0.1);
  at::Tensor got = filled(1, 0);
  std::latch resting(1);
  std::thread sender([&] {
    resting.count_down();
    transports[0]->sleep_until(Clock::now() + milliseconds(400));
    transports[0]->send(filled(1, 5), 1, 0)->wait();
  });
  resting.wait();
  std::this_thread::sleep_for(milliseconds(10));
  transports[1]->recv(got, 0, 0)->wait();
  sender.join();
  EXPECT_EQ(got.item<uint8_t>(), 5);
}

TEST(ThreadTransport, RestEndsWhenItsTimeHasCome) {
  auto transports = thread_transports(1, 60);
  const auto start = Clock::now(), when = start + milliseconds(30);
  transports[0]->sleep_until(when);
  EXPECT_GE(Clock::now(), when);
  transports[0]->sleep_until(start);
}

}  // namespace
}  // namespace thinwire::comm
