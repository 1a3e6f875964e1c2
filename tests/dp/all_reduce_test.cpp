#include "thinwire/dp/all_reduce.h"

#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "quadratic.h"
#include "thinwire/base/errors.h"

namespace thinwire::dp {
namespace {

TEST(Buckets, CoverEveryPieceOnceFromTheEndToTheBeginning) {
  const auto layout =
      optim::make_layout({{at::zeros({1000}), at::zeros({10})}, {at::zeros({500})}, {at::zeros({3000})}});
  for (int64_t least : {1, 4000, 1 << 30}) {
    const auto buckets = make_buckets(layout, least);
    int pieces = 0;
    int64_t before = layout.numel;
    for (const Bucket& bucket : buckets) {
      EXPECT_LT(bucket.begin, bucket.end);
      EXPECT_LE(bucket.end, before) << "they do not overlap";
      before = bucket.begin;
      pieces += bucket.pieces;
    }
    EXPECT_EQ(before, 0);
    EXPECT_EQ(pieces, 4);
  }
  EXPECT_EQ(make_buckets(layout, 1).size(), 4u);
  EXPECT_EQ(make_buckets(layout, 1 << 30).size(), 1u);
}

TEST(AllReduce, EveryReplicaAppliesTheMeanGradient) {
  std::vector<at::Tensor> x(3);
  at::Tensor mean_target = at::zeros_like(on_pieces(two_piece_layout(), 1));
  for (int i = 0; i < 3; ++i) mean_target += on_pieces(two_piece_layout(), 100 + i) / 3;
  comm::run_world(3, [&](comm::GroupPtr group) {
    Replica replica(preset("all_reduce"), group, plain_sgd(two_piece_layout()), 100 + group->rank());
    replica.step(1, 0.25);
    x[group->rank()] = replica.x;
  });
  const at::Tensor start = on_pieces(two_piece_layout(), 7);
  for (int i = 0; i < 3; ++i) {
    EXPECT_LT(distance(x[i], start - 0.25 * (start - mean_target)), 1e-6);
    EXPECT_TRUE(x[i].equal(x[0]));
  }
}

TEST(AllReduce, StartsFromReplicaZerosWeights) {
  comm::run_world(3, [](comm::GroupPtr group) {
    const auto layout = two_piece_layout();
    at::Tensor x = on_pieces(layout, group->rank()), grad = at::zeros_like(x);
    AllReduce strategy(layout, {.sync = group}, plain_sgd(layout), {}, x, grad);
    EXPECT_TRUE(x.equal(on_pieces(layout, 0)));
  });
}

TEST(AllReduce, TheOrderInWhichGradientsBecomeReadyDoesNotMatter) {
  std::vector<at::Tensor> results;
  for (int order = 0; order < 3; ++order) {
    at::Tensor x;
    comm::run_world(2, [&](comm::GroupPtr group) {
      StrategyOptions options;
      options.all_reduce.bucket = {1};  // a bucket a piece
      Replica replica(options, group, adamw(two_piece_layout()), 100 + group->rank());
      for (int64_t t = 1; t <= 5; ++t) {
        replica.grad.copy_(replica.x).sub_(replica.target);
        if (order > 0) replica.strategy->grad_ready(order == 1 ? 0 : 1);
        if (order > 0) replica.strategy->grad_ready(order == 1 ? 1 : 0);
        const double lr[] = {0.1, 0.1};
        replica.strategy->step({.x = replica.x, .next = replica.x, .grad = replica.grad, .lr = lr, .t = t});
      }
      if (group->rank() == 0) x = replica.x;
    });
    results.push_back(x);
  }
  EXPECT_TRUE(results[1].equal(results[0]));
  EXPECT_TRUE(results[2].equal(results[0]));
}

TEST(AllReduce, AGradientThatComesTwiceInAStepIsAnError) {
  comm::run_world(1, [](comm::GroupPtr group) {
    Replica replica(preset("all_reduce"), group, plain_sgd(two_piece_layout()), 1);
    replica.strategy->grad_ready(1);
    try {
      replica.strategy->grad_ready(1);
      FAIL();
    } catch (const std::exception& error) {
      EXPECT_EQ(
          one_line(error),
          "[dp.all_reduce] the gradient of piece 1 came twice before step(): its first value is already on the wire");
    }
  });
}

TEST(AllReduce, SendsTwiceTheGradientLessItsOwnShare) {
  comm::run_world(4, [](comm::GroupPtr group) {
    Replica replica(preset("all_reduce"), group, plain_sgd(two_piece_layout()), group->rank());
    const int64_t before = group->ledger().sent();
    replica.step(1, 0.1);
    at::Tensor total = at::zeros({1}, at::kLong);
    total[0] = group->ledger().sent() - before;
    group->all_reduce_(total, comm::Reduce::sum)->wait();
    EXPECT_EQ(total.item<int64_t>(), 2 * 3 * 437 * 4) << "2 (M-1)/M n numbers a rank, M ranks, 4 bytes a number";
  });
}

TEST(AllReduce, NormsLeaveOutWhatAnotherRankCounts) {
  comm::run_world(2, [](comm::GroupPtr group) {
    optim::Layout layout = optim::make_layout({{at::zeros({10})}, {at::zeros({4})}});
    layout.pieces[1].duplicate = true;
    at::Tensor x = at::zeros({layout.numel}), grad = at::zeros({layout.numel});
    AllReduce strategy(layout, {.sync = group}, plain_sgd(layout), {}, x, grad);
    const float own = group->rank() == 0 ? 1 : 3;
    grad.narrow(0, 0, 10).fill_(own), grad.narrow(0, layout.pieces[1].at, 4).fill_(100 * own);
    const std::vector<double> rates = {0.1, 0.1};
    strategy.step({.x = x, .next = x, .grad = grad, .lr = rates, .t = 1});
    EXPECT_EQ(strategy.norms()->local, 10 * own * own) << "of this rank's own gradient, not of the mean";
    EXPECT_EQ(strategy.norms()->mean, 40);
  });
}

}  // namespace
}  // namespace thinwire::dp
