#include "thinwire/base/random.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <gtest/gtest.h>

#include <set>

namespace thinwire {
namespace {

constexpr uint64_t kMax = ~0ull;

at::Tensor draw(at::Generator g) { return at::empty({8}).uniform_(0, 1, g); }

// Recipes and seeds mean the same weights only as long as these never change.
TEST(Random, MixIsSplitmix64Chained) {
  EXPECT_EQ(hash64({}), 0u);
  EXPECT_EQ(hash64({0}), 0xe220a8397b1dcdafull);
  EXPECT_EQ(hash64({1}), 0x910a2dec89025cc1ull);
  EXPECT_EQ(hash64({kMax}), 0xe4d971771b652c20ull);
  EXPECT_EQ(hash64({0, 0}), 0xa706dd2f4d197e6full);
  EXPECT_EQ(hash64({1, 2, 3}), 0xd0734750fde362b3ull);
  EXPECT_EQ(hash64({3, 2, 1}), 0xd62a7f6e291fef64ull);
}

TEST(Random, AWordIsTheFnvHashOfAName) {
  EXPECT_EQ(stream_id(""), 0xcbf29ce484222325ull);
  EXPECT_EQ(stream_id("a"), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(stream_id("foobar"), 0x85944171f73967e8ull);
}

TEST(Random, EveryWordOfMixMatters) {
  std::set<uint64_t> seen;
  for (uint64_t a = 0; a < 20; ++a)
    for (uint64_t b = 0; b < 20; ++b)
      for (uint64_t c = 0; c < 20; ++c) seen.insert(hash64({a, b, c}));
  EXPECT_EQ(seen.size(), 8000u);
}

TEST(Random, BelowIsInRangeAndReachesItsEnds) {
  for (uint64_t n : {uint64_t{1}, uint64_t{2}, uint64_t{7}, uint64_t{1000}, uint64_t{1} << 40, kMax}) {
    EXPECT_EQ(below(n, 0), 0u);
    EXPECT_EQ(below(n, kMax), n - 1);
    for (uint64_t i = 0; i < 1000; ++i) EXPECT_LT(below(n, hash64({n, i})), n);
  }
}

TEST(Random, BelowIsFair) {
  int count[7] = {};
  for (uint64_t i = 0; i < 70'000; ++i) ++count[below(7, hash64({i}))];
  for (int c : count) EXPECT_NEAR(c, 10'000, 500);  // five standard deviations
}

TEST(Random, AGeneratorIsAFunctionOfSeedNameAndIndex) {
  const at::Tensor first = draw(generator(1, "init", 2));
  EXPECT_TRUE(at::equal(first, draw(generator(1, "init", 2))));
  EXPECT_FALSE(at::equal(first, draw(generator(2, "init", 2))));
  EXPECT_FALSE(at::equal(first, draw(generator(1, "dropout", 2))));
  EXPECT_FALSE(at::equal(first, draw(generator(1, "init", 3))));
}

TEST(Random, DrawingFromOneGeneratorMovesNoOther) {
  at::Generator one = generator(1, "one"), two = generator(1, "two");
  const at::Tensor alone = draw(generator(1, "one"));
  draw(two);
  at::rand({8});  // torch's own
  EXPECT_TRUE(at::equal(draw(one), alone));
}

}  // namespace
}  // namespace thinwire
