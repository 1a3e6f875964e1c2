#include "thinwire/data/synthetic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "thinwire/base/errors.h"
#include "thinwire/data/text.h"

namespace thinwire::data {
namespace {

TEST(Synthetic, TheEntropyOfOneBranchIsZeroAndOfTwoIsThatOfTwoThirds) {
  EXPECT_EQ(synthetic_entropy(1), 0);
  EXPECT_NEAR(synthetic_entropy(2), -(2 * std::log(2. / 3) + std::log(1. / 3)) / 3, 1e-15);
}

TEST(Synthetic, EveryByteHasExactlySoManySuccessors) {
  const std::string text = synthetic_text(3, 5, 200'000, 0);
  std::map<uint8_t, std::set<uint8_t>> successors;
  for (size_t i = 1; i < text.size(); ++i) successors[text[i - 1]].insert(text[i]);
  for (const auto& [byte, next] : successors) EXPECT_LE(next.size(), 5u);
  EXPECT_GT(successors.size(), 8u) << "it does not run in a small circle";
}

TEST(Synthetic, TheEntropyMeasuredFromCountsIsTheOneThatIsTold) {
  for (int64_t branches : {2, 8, 32}) {
    const std::string text = synthetic_text(1, branches, 2'000'000, 0);
    std::map<std::pair<uint8_t, uint8_t>, double> pairs;
    std::map<uint8_t, double> singles;
    for (size_t i = 1; i < text.size(); ++i) ++pairs[{text[i - 1], text[i]}], ++singles[text[i - 1]];
    double nats = 0;
    for (const auto& [pair, count] : pairs) nats -= count * std::log(count / singles[pair.first]);
    EXPECT_NEAR(nats / static_cast<double>(text.size()), synthetic_entropy(branches), 5e-3) << branches;
  }
}

TEST(Synthetic, IsAPureFunctionOfSeedAndStream) {
  EXPECT_EQ(synthetic_text(1, 8, 1000, 0), synthetic_text(1, 8, 1000, 0));
  EXPECT_NE(synthetic_text(1, 8, 1000, 0), synthetic_text(2, 8, 1000, 0));
  EXPECT_NE(synthetic_text(1, 8, 1000, 0), synthetic_text(1, 8, 1000, 1));
}

TEST(Synthetic, AsASourceItKnowsItsFloor) {
  DataOptions options;
  options.source = "synthetic";
  options.length = {10'000};
  const auto text = load_text(options, 16);
  EXPECT_EQ(text->train.numel(), 9'500);
  EXPECT_EQ(text->held_out.numel(), 500);
  EXPECT_EQ(*text->entropy, synthetic_entropy(8));
}

TEST(Synthetic, ATextTooShortForTheContextIsRefused) {
  DataOptions options;
  options.source = "synthetic";
  options.length = {100};
  try {
    load_text(options, 16);
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_STREQ(error.what(),
                 "data.length: the held-out part of the synthetic text must be at least context + 1 = 17 bytes, got 5");
  }
}

}  // namespace
}  // namespace thinwire::data
