// train.on_divergence = "skip", with weights that are finite but overflow on one rare byte: only steps that draw it
// have a loss that is not finite.
#include <cmath>
#include <fstream>

#include "tests/train/small_run.h"
#include "thinwire/base/read_file.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/comm/world.h"
#include "thinwire/train/inspect.h"
#include "thinwire/train/metrics.h"
#include "thinwire/train/stages.h"

namespace thinwire::train {
namespace {

class Divergence : public SmallRun {
 protected:
  Divergence() {
    const std::string clean = read_file(home_ / "text.txt");
    std::ofstream text(home_ / "text.txt");
    for (int i = 0; i < 30; ++i) {
      for (int j = 0; j < 8; ++j) text << "a thin wire joins " << j << " distant machines\n";
      text << "Z\n";
    }
    text << clean;  // the end of it is held out
  }

  Recipe skipping(const std::string& strategy, const std::string& how = "skip") const {
    Recipe r = recipe_for(strategy);
    r.train.steps = 40;
    r.train.on_divergence = how;
    r.optim.warmup_steps = 0;
    return r;
  }

  // A run to begin with whose embedding of 'Z' overflows.
  fs::path poisoned(const Recipe& like) const {
    Recipe r = like;
    r.train.steps = 1;
    r.train.on_divergence = "stop";
    r.data.path = (home_ / "clean.txt").string();
    {
      std::string clean = read_file(home_ / "text.txt");
      std::erase(clean, 'Z');
      std::ofstream(home_ / "clean.txt") << clean;
    }
    const fs::path before = home_ / ("before-" + r.strategy.name), after = home_ / ("after-" + r.strategy.name);
    run_of(r, {.dir = before});
    const auto model = models::make_model(r.model, data::kVocabulary, 1);
    comm::run_threads(2, [&](comm::World& world) {
      auto loaded = checkpoint::load(checkpoint::folder_of(before, 1), world.rank());
      for (const char* name : {"x", "strategy.z", "agreed"})
        if (const auto it = loaded.state.find(name); it != loaded.state.end())
          by_name(*model, it->second.value).at("embedding.tokens").select(0, 'Z').fill_(1e30);
      checkpoint::save(after, 1, loaded.state, loaded.facts, 1, world, {.replicas = 2});
    });
    return checkpoint::folder_of(after, 1);
  }
};

TEST_F(Divergence, IsTheEndUnlessItIsToBeSkipped) {
  const Recipe stops = skipping("local_sgd", "stop");
  const std::string error = error_of(stops, {.dir = home_ / "run", .from = poisoned(stops)});
  EXPECT_NE(error.find("is not finite at step"), error.npos) << error;
  EXPECT_NE(error.find("optim.clip"), error.npos) << error;
}

TEST_F(Divergence, SkippedUpdatesLeaveWeightsFiniteUnderEveryStrategy) {
  for (const std::string& name : dp::strategy_names()) {
    const Recipe r = skipping(name);
    const Result result = run_of(r, {.dir = home_ / name, .from = poisoned(r)});
    EXPECT_TRUE(result.finished) << name;
    EXPECT_GT(result.skipped, 0) << name;
    EXPECT_LT(result.skipped, 2 * 40) << name;
    EXPECT_TRUE(std::isfinite(result.val_loss)) << name;
    // Where gradients are averaged all leave out a step, or none does.
    if (dp::traits_of(r.strategy).averages_gradients) {
      EXPECT_EQ(result.skipped % 2, 0) << name;
    }
  }
}

TEST_F(Divergence, ARunWithoutAnyIsTheSameWhetherItMaySkipOrNot) {
  for (const std::string name : {"all_reduce", "co2", "one_bit_adam"})
    EXPECT_EQ(run_of(skipping(name)).weights_hash, run_of(skipping(name, "stop")).weights_hash) << name;
}

TEST_F(Divergence, ARunThatOnlySkipsEnds) {
  Recipe r = skipping("local_sgd");
  const fs::path from = poisoned(r);
  std::ofstream(home_ / "zzz.txt") << std::string(20000, 'Z');
  r.data.path = (home_ / "zzz.txt").string();
  const std::string error = error_of(r, {.dir = home_ / "run", .from = from});
  EXPECT_NE(error.find("were not finite in 10 steps in a row"), error.npos) << error;
}

TEST_F(Divergence, StagesCannotSkip) {
  Recipe r = skipping("local_sgd");
  r.workers.stages = 2;
  EXPECT_EQ(error_of(r),
            "train.on_divergence = \"skip\" is for replicas in one piece: workers.stages must be 1, got 2");
}

}  // namespace
}  // namespace thinwire::train
