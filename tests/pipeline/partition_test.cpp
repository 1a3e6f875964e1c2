#include "thinwire/pipeline/partition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "thinwire/base/errors.h"
#include "thinwire/base/random.h"

namespace thinwire::pipeline {
namespace {

double slowest(const std::vector<UnitCost>& units, const std::vector<int64_t>& sizes_of_stages) {
  double most = 0;
  size_t first = 0;
  for (size_t stage = 0; stage < sizes_of_stages.size(); ++stage) {
    const auto part = std::span(units).subspan(first, static_cast<size_t>(sizes_of_stages[stage]));
    most = std::max(most, stage_cost(part, stage + 1 == sizes_of_stages.size()));
    first += static_cast<size_t>(sizes_of_stages[stage]);
  }
  return most;
}

TEST(Partition, CountsTheForwardThatIsComputedAgainExceptOnTheLastStage) {
  const std::vector<UnitCost> units = {{1, 2}, {1, 2}};
  EXPECT_EQ(stage_cost(units, false), 8);
  EXPECT_EQ(stage_cost(units, true), 6);
  // Of seven equal units the last of two stages can take four: 4 x 3 = 3 x 4.
  EXPECT_EQ(partition(std::vector<UnitCost>(7, {1, 2}), 2), (std::vector<int64_t>{3, 4}));
}

TEST(Partition, GivesAnExpensiveUnitAStageOfItsOwnOrTheLastWhereItIsComputedOnce) {
  EXPECT_EQ(partition(std::vector<UnitCost>{{1, 2}, {9, 18}, {5, 10}, {5, 10}}, 3), (std::vector<int64_t>{1, 1, 2}));
  EXPECT_EQ(partition(std::vector<UnitCost>{{0, 0}, {1, 2}, {9, 18}, {1, 2}}, 3), (std::vector<int64_t>{1, 1, 2}));
}

TEST(Partition, IsTheBestOfAll) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto n = static_cast<int64_t>(3 + below(6, hash64({seed, 1})));
    const int stages = static_cast<int>(1 + below(static_cast<uint64_t>(n), hash64({seed, 2})));
    std::vector<UnitCost> units;
    for (int64_t i = 0; i < n; ++i) {
      const double f = static_cast<double>(below(20, hash64({seed, 3, static_cast<uint64_t>(i)})));
      units.push_back({f, 2 * f});
    }
    double best = INFINITY;
    std::function<void(std::vector<int64_t>, int64_t)> every = [&](std::vector<int64_t> sizes, int64_t left) {
      if (std::ssize(sizes) + 1 == stages) {
        sizes.push_back(left);
        if (left > 0) best = std::min(best, slowest(units, sizes));
        return;
      }
      for (int64_t size = 1; size < left; ++size) {
        sizes.push_back(size);
        every(sizes, left - size);
        sizes.pop_back();
      }
    };
    every({}, n);
    const auto got = partition(units, stages);
    EXPECT_EQ(std::accumulate(got.begin(), got.end(), int64_t{0}), n);
    EXPECT_EQ(slowest(units, got), best) << "seed " << seed;
  }
}

TEST(Partition, NeedsAUnitForEveryStage) {
  EXPECT_THROW(partition(std::vector<UnitCost>(3), 4), BadInput);
  EXPECT_THROW(partition(std::vector<UnitCost>(3), 0), BadInput);
}

TEST(Partition, IsWrittenAndReadAsText) {
  EXPECT_EQ(to_text({2, 3, 1}), "2,3,1");
  EXPECT_EQ(partition_from_text("2,3,1", 3, 6), (std::vector<int64_t>{2, 3, 1}));
  for (const char* wrong : {"", "6", "2,3", "2,3,2", "2,4,0", "2,5,-1", "a,b,c", "2,3,1,", "2, 3,1", "2,,4"})
    EXPECT_THROW(partition_from_text(wrong, 3, 6), BadInput) << wrong;
}

}  // namespace
}  // namespace thinwire::pipeline
