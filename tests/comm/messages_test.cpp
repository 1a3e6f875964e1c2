#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "thinwire/comm/errors.h"
#include "thinwire/comm/world.h"

namespace thinwire::comm {
namespace {

at::Tensor number(double value) { return at::full({1}, value, at::kDouble); }

TEST(Messages, ArriveInTheOrderInWhichTheyWereSent) {
  run_world(3, [](const GroupPtr& group) {
    const int next = (group->rank() + 1) % 3, before = (group->rank() + 2) % 3;
    std::vector<at::Tensor> sent;
    std::vector<WorkPtr> works;
    for (int k = 0; k < 20; ++k) {
      sent.push_back(number(100 * group->rank() + k));
      works.push_back(group->send(sent.back(), next));
    }
    for (int k = 0; k < 20; ++k) {
      const at::Tensor got = number(-1);
      group->recv(got, before)->wait();
      EXPECT_EQ(got.item<double>(), 100 * before + k);
    }
    for (auto& work : works) work->wait();
  });
}

TEST(Messages, DoNotMeetCollectivesOrMessagesOfOtherGroups) {
  run_world(2, [](const GroupPtr& group) {
    const auto other = group->split(0, group->rank());
    const int peer = 1 - group->rank();
    const at::Tensor here = number(1), there = number(2), sum = number(3), a = number(0), b = number(0);
    auto first = other->send(there, peer);
    auto second = group->send(here, peer);
    group->all_reduce_(sum, Reduce::sum)->wait();
    group->recv(a, peer)->wait();
    other->recv(b, peer)->wait();
    EXPECT_EQ(a.item<double>(), 1);
    EXPECT_EQ(b.item<double>(), 2);
    EXPECT_EQ(sum.item<double>(), 6);
    first->wait(), second->wait();
  });
}

TEST(Messages, AreCountedByTheirBytes) {
  run_world(2, [](std::shared_ptr<TransportGroup> world) {
    const GroupPtr group = world->with_transport(world->transport());
    const int64_t before = group->ledger().sent();
    if (group->rank() == 0) {
      const at::Tensor x = at::empty({25}, at::kFloat);
      group->send(x, 1)->wait();
      EXPECT_EQ(group->ledger().sent() - before, 100);
      EXPECT_EQ(group->ledger().sent(TrafficKind::payload), 100);
    } else {
      group->recv(at::empty({25}, at::kFloat), 0)->wait();
      EXPECT_EQ(group->ledger().received(TrafficKind::payload), 100);
      EXPECT_EQ(group->ledger().sent() - before, 0);
    }
  });
}

TEST(Messages, OfAnotherSizeAreAnError) {
  EXPECT_THROW(run_world(2,
                         [](const GroupPtr& group) {
                           if (group->rank() == 0)
                             group->send(at::empty({3}, at::kFloat), 1)->wait();
                           else
                             group->recv(at::empty({4}, at::kFloat), 0)->wait();
                         }),
               c10::Error);
}

TEST(Messages, GoToOtherRanksOfTheGroupOnly) {
  run_world(2, [](const GroupPtr& group) {
    for (int peer : {-1, 2, group->rank()}) {
      EXPECT_THROW(group->send(number(1), peer), c10::Error);
      EXPECT_THROW(group->recv(number(1), peer), c10::Error);
    }
  });
}

TEST(Messages, FromARankThatIsLostAreNotWaitedFor) {
  EXPECT_THROW(run_world(2,
                         [](const GroupPtr& group) {
                           if (group->rank() == 0) throw std::runtime_error("gone");
                           EXPECT_THROW(group->recv(number(0), 0)->wait(), PeerLost);
                         }),
               std::runtime_error);
}

}  // namespace
}  // namespace thinwire::comm
