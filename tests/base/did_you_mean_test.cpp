#include "thinwire/base/did_you_mean.h"

#include <gtest/gtest.h>

namespace thinwire {
namespace {

const std::vector<std::string> kRules = {"sgd", "adamw", "muon"};

TEST(DidYouMean, TheNearestWordNeedsFewEdits) {
  const std::vector<std::string> words = {"lr", "momentum", "period", "outer_lr"};
  const std::pair<const char*, const char*> known[] = {
      {"lr", "lr"}, {"l", "lr"}, {"momentun", "momentum"}, {"peroid", "period"}, {"outerlr", "outer_lr"},
      {"xy", ""},   {"", ""},    {"bandwidth", ""}};
  for (const auto& [word, near] : known) EXPECT_EQ(nearest(word, words), near) << word;
  EXPECT_EQ(nearest("lr", {}), "");
}

TEST(DidYouMean, AsksInTheQuotesOfItsCaller) {
  EXPECT_EQ(did_you_mean("adam", kRules), "; did you mean 'adamw'?");
  EXPECT_EQ(did_you_mean("adam", kRules, {"[", "]"}), "; did you mean [adamw]?");
  EXPECT_EQ(did_you_mean("adam", kRules, {"optim.", ""}), "; did you mean optim.adamw?");
}

TEST(DidYouMean, WhereNothingIsNearThereIsNoQuestionOrAListOfAll) {
  EXPECT_EQ(did_you_mean("bandwidth", kRules), "");
  EXPECT_EQ(did_you_mean_or_list("bandwidth", kRules), " (there are: sgd, adamw, muon)");
  EXPECT_EQ(did_you_mean_or_list("mion", kRules), "; did you mean 'muon'?");
}

}  // namespace
}  // namespace thinwire
