// 1-bit LAMB on a text with bytes that are seen once in a while: where the second moment has decayed, a sign over its
// root moves a weight thousands of times too far, unless it is clamped to Adam's own reach.
#include <algorithm>

#include "tests/train/small_run.h"
#include "thinwire/base/random.h"

namespace thinwire::train {
namespace {

class Reach : public SmallRun {
 protected:
  Reach() {
    static const char* kWords[] = {"thin ", "wire ",    "joins ",  "distant ", "machines ", "and ",
                                   "the ",  "replica ", "learns ", "slowly ",  "over ",     "a ",
                                   "link ", "that ",    "drops ",  "packets "};
    std::ofstream text(home_ / "rare.txt", std::ios::binary);
    constexpr uint64_t kLength = 60'000;  // words
    for (uint64_t i = 0; i < kLength; ++i) {
      text << kWords[hash64({1, i}) % std::size(kWords)];
      // One of 40 bytes after two words in a thousand; more often in the held-out part, so that it shows.
      const uint64_t often = i < kLength * 95 / 100 ? 2 : 50;
      if (hash64({2, i}) % 1000 < often) text << static_cast<char>(128 + hash64({3, i}) % 40);
    }
  }

  double loss_of(const std::vector<std::string>& more) const {
    RecipeText text;
    for (const char* key :
         {"model.size=nano", "model.context=32", "train.batch=4", "train.steps=300", "train.eval_every=0",
          "train.eval_windows=256", "workers.replicas=4", "optim.lr=0.02", "optim.warmup_steps=5"})
      set_key(text, key);
    set_key(text, "data.path=" + (home_ / "rare.txt").string());
    set_keys(text, more);
    return run_of(make_recipe(text)).val_loss;
  }
};

TEST_F(Reach, KeepsOneBitLambNearAllReduceWhereBytesAreRare) {
  const double exact = loss_of({"strategy.name=all_reduce", "optim.name=lamb"});
  const std::vector<std::string> one_bit = {"strategy.name=one_bit_lamb", "strategy.freeze=220"};
  auto published = one_bit;
  published.push_back("strategy.reach=false");
  EXPECT_LT(loss_of(one_bit) - exact, 0.05);
  EXPECT_GT(loss_of(published) - exact, 0.05);
}

}  // namespace
}  // namespace thinwire::train
