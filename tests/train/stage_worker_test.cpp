#include "thinwire/train/stage_worker.h"

#include "tests/train/small_run.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/train/inspect.h"

namespace thinwire::train {
namespace {

class StageWorker : public SmallRun {
 protected:
  Recipe staged(std::vector<std::string> keys) const {
    keys.insert(keys.begin(), {"workers.replicas=1", "workers.stages=3", "optim.name=nadamw", "train.steps=14"});
    return recipe(keys);
  }
};

TEST_F(StageWorker, SynchronousRunsEndOnTheWeightsOfARunWithoutStages) {
  for (const char* tied : {"model.tied=false", "model.tied=true"}) {
    const Result whole = run_of(recipe({"workers.replicas=2", "optim.name=nadamw", tied}));
    for (const char* schedule : {"gpipe", "1f1b", "zero_bubble_h1"})
      for (const char* stages : {"workers.stages=2", "workers.stages=4"}) {
        const Result got = run_of(recipe({"workers.replicas=2", "optim.name=nadamw", tied, stages,
                                          std::string("pipeline.schedule=") + schedule, "pipeline.microbatches=1"}));
        EXPECT_EQ(got.weights_hash, whole.weights_hash) << schedule << ", " << stages << ", " << tied;
        EXPECT_NEAR(got.val_loss, whole.val_loss, 1e-6);
      }
  }
}

TEST_F(StageWorker, WeightsDoNotDependOnLinksOrEvaluationsOrCheckpoints) {
  const std::vector<std::string> keys = {"workers.replicas=2", "pipeline.hop=2", "strategy.name=drip"};
  const Result plain = run_of(staged(keys));
  auto with = keys;
  with.insert(with.end(), {"link.stages=20mbit/2ms~3ms", "link.replicas=5mbit/4ms", "train.eval_every=3"});
  EXPECT_EQ(run_of(staged(with)).weights_hash, plain.weights_hash);
  with.push_back("train.save_every=4");
  EXPECT_EQ(run_of(staged(with), {.dir = home_ / "saving"}).weights_hash, plain.weights_hash);
}

TEST_F(StageWorker, ARunStoppedInTheMiddleGoesOnAsIfNothingHadHappened) {
  const std::vector<std::vector<std::string>> cases = {
      {"pipeline.hop=1"},
      {"pipeline.hop=2", "workers.replicas=2", "strategy.name=drip"},
      {"pipeline.hop=2", "workers.replicas=2", "strategy.name=asyncmesh", "strategy.slices=2", "strategy.delay=3"},
      {"pipeline.stash=false", "workers.replicas=2", "strategy.name=co2", "strategy.period=3"},
      {"model.tied=true", "pipeline.tie=delayed", "pipeline.hop=2"},
      {"model.tied=true", "pipeline.tie=delayed", "workers.replicas=2", "strategy.name=drip", "strategy.slices=1"},
      {"pipeline.codec=int8"},
      {"pipeline.codec=threshold:0.2", "pipeline.hop=2"},
      {"train.dtype=bfloat16", "pipeline.hop=2"},
      {"pipeline.schedule=1f1b", "pipeline.microbatches=2"},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    Recipe r = staged(cases[i]);
    r.train.steps = 40;  // a wish to stop is heard some steps later
    const Result whole = run_of(r);
    const auto dir = home_ / fmt::format("case{}", i);
    for (const int64_t at : {1, 2}) {
      std::atomic<bool> stop = false;
      Watch watch;
      watch.after = [&](int64_t step) { stop = step >= at; };
      const Result stopped = run(r, {.dir = dir, .resume = true, .stop = &stop}, watch);
      EXPECT_FALSE(stopped.finished) << i;
      EXPECT_EQ(checkpoint::newest(dir), stopped.steps) << i;
    }
    const Result resumed = run_of(r, {.dir = dir, .resume = true});
    EXPECT_EQ(resumed.weights_hash, whole.weights_hash) << i << ": " << cases[i][0];
    EXPECT_EQ(resumed.val_loss, whole.val_loss) << i;
    EXPECT_EQ(resumed.wire_bytes, whole.wire_bytes) << i;
    EXPECT_EQ(resumed.stage_bytes, whole.stage_bytes) << i;
  }
}

TEST_F(StageWorker, ACheckpointOfStagesHoldsAWholeModel) {
  for (const char* tie : {"model.tied=false", "model.tied=true"}) {
    const auto dir = home_ / tie;
    const Result done = run_of(staged({tie, "pipeline.tie=delayed"}), {.dir = dir});
    const Trained finished = load_trained(dir);
    EXPECT_EQ(finished.weights_hash, done.weights_hash);
    // One replica has nothing under way: its last checkpoint is what it ended on.
    const Trained saved = load_trained(dir / "checkpoints" / "step-14");
    EXPECT_EQ(saved.weights_hash, done.weights_hash);
    EXPECT_EQ(inspect_checkpoint(dir / "checkpoints" / "step-14").damage, "");
  }
}

TEST_F(StageWorker, ACheckpointOfSomeStagesBeginsARunWithOthers) {
  const std::vector<std::string> alike = {"workers.replicas=2", "strategy.name=all_reduce", "train.steps=24",
                                          "model.tied=true",    "pipeline.tie=delayed",     "train.save_every=12"};
  auto with = [&](const std::vector<std::string>& keys) {
    auto all = alike;
    all.insert(all.end(), keys.begin(), keys.end());
    return staged(all);
  };
  const Result three = run_of(with({"train.keep_checkpoints=9"}), {.dir = home_ / "three"});
  const auto from = home_ / "three" / "checkpoints" / "step-12";
  for (const char* stages : {"workers.stages=1", "workers.stages=2", "workers.stages=4"}) {
    Watch watch;
    const Result other = run(with({stages}), {.from = from}, watch);
    EXPECT_EQ(watch.start.from_step, 12) << stages;
    EXPECT_EQ(other.steps, 24) << stages;
    EXPECT_EQ(other.tokens, 12 * 2 * 2 * 16) << stages << ": its own";
    EXPECT_LT(other.val_loss, watch.steps.front().loss) << stages << ": it goes on learning";
    EXPECT_NEAR(other.val_loss, three.val_loss, 0.2) << stages;
  }
}

TEST_F(StageWorker, BeginningWithACheckpointIsExactWhereNothingWasUnderWay) {
  const std::vector<std::string> keys = {"workers.replicas=2", "workers.stages=2", "pipeline.schedule=gpipe",
                                         "pipeline.microbatches=2"};
  const Result whole = run_of(staged(keys), {.dir = home_ / "whole"});
  Recipe half = staged(keys);
  half.train.save_every = 7, half.train.keep_checkpoints = 9;
  run_of(half, {.dir = home_ / "half"});
  const auto from = home_ / "half" / "checkpoints" / "step-7";
  EXPECT_EQ(run_of(staged(keys), {.from = from}).weights_hash, whole.weights_hash);
  Recipe three = staged(keys);
  three.workers.stages = 3;
  EXPECT_EQ(run_of(three, {.from = from}).weights_hash, whole.weights_hash) << "synchronous: the cut does not matter";
}

TEST_F(StageWorker, ARunThatBeganWithACheckpointResumesExactly) {
  const auto from = home_ / "first";
  run_of(staged({"train.steps=6"}), {.dir = from});
  const Recipe r = staged({"workers.stages=2", "pipeline.hop=2", "train.steps=40"});
  const Result whole = run_of(r, {.from = from});
  std::atomic<bool> stop = false;
  Watch watch;
  watch.after = [&](int64_t step) { stop = step >= 8; };
  EXPECT_FALSE(run(r, {.dir = home_ / "second", .from = from, .stop = &stop}, watch).finished);
  EXPECT_EQ(run_of(r, {.dir = home_ / "second", .resume = true, .from = from}).weights_hash, whole.weights_hash);
}

TEST_F(StageWorker, AnotherModelOrRuleIsNotTakenForABeginning) {
  run_of(staged({"train.steps=2"}), {.dir = home_ / "first"});
  EXPECT_NE(error_of(staged({"model.layers=3"}), {.from = home_ / "first"}).find("model.layers is 2 there and 3 here"),
            std::string::npos);
  EXPECT_NE(error_of(staged({"optim.name=sgd"}), {.from = home_ / "first"}).find("optim.name is"), std::string::npos);
  EXPECT_NE(error_of(staged({"train.steps=2"}), {.from = home_ / "first"}).find("there is nothing left to do"),
            std::string::npos);
  EXPECT_NE(error_of(staged({}), {.from = home_ / "nowhere"}).find("there is no"), std::string::npos);
}

TEST_F(StageWorker, MuonTreatsAStageWithoutHiddenMatricesAsItTreatsWhatIsNone) {
  const Result whole = run_of(recipe({"optim.name=muon", "workers.replicas=1"}));
  const Result got = run_of(recipe({"optim.name=muon", "workers.replicas=1", "workers.stages=4",
                                    "pipeline.schedule=gpipe", "pipeline.microbatches=1"}));
  EXPECT_EQ(got.weights_hash, whole.weights_hash);
}

// Muon and all of preset = "steady", with a change of schedule after step 6.
std::vector<std::string> steady(std::vector<std::string> more) {
  std::vector<std::string> keys = {"optim.name=muon", "pipeline.preset=steady", "pipeline.sync_steps=6",
                                   "pipeline.microbatches=2"};
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

TEST_F(StageWorker, ARunStoppedAroundAChangeOfScheduleGoesOnAsIfNothingHadHappened) {
  const std::vector<std::vector<std::string>> cases = {
      {"pipeline.hop=1"},
      {"pipeline.hop=2", "workers.replicas=2", "strategy.name=drip", "pipeline.sync_schedule=gpipe"},
      {"workers.replicas=2", "strategy.name=co2", "strategy.period=3", "pipeline.sync_schedule=zero_bubble_h1"},
      {"model.tied=true", "pipeline.tie=delayed", "pipeline.hop=2"},
      {"pipeline.codec=threshold:0.2", "pipeline.hop=2"},
      {"train.dtype=bfloat16", "pipeline.hop=2"},
  };
  for (const auto& keys : cases) {
    Recipe r = staged(steady(keys));
    const Result whole = run_of(r);
    for (const int64_t at : {3, 6, 7, 9}) {  // before, at, with the pipeline half filled, after
      r.train.save_every = at, r.train.keep_checkpoints = 20;
      const auto dir = home_ / "run";
      run_of(r, {.dir = dir});
      for (const auto& folder : fs::directory_iterator(dir / "checkpoints"))
        if (folder.path().filename() != fmt::format("step-{}", at)) fs::remove_all(folder.path());
      Watch watch;
      const Result resumed = run(r, {.dir = dir, .resume = true}, watch);
      EXPECT_EQ(watch.start.from_step, at);
      EXPECT_EQ(resumed.weights_hash, whole.weights_hash) << at << ": " << keys[0];
      EXPECT_EQ(resumed.val_loss, whole.val_loss) << at << ": " << keys[0];
      EXPECT_EQ(resumed.stage_bytes, whole.stage_bytes) << at << ": " << keys[0];
      fs::remove_all(dir);
    }
  }
}

TEST_F(StageWorker, ASynchronousBeginningThatLastsIsThatSchedule) {
  for (const char* schedule : {"gpipe", "1f1b"}) {
    const std::vector<std::string> alike = {"workers.replicas=2", "optim.clip=inf", "pipeline.microbatches=2"};
    auto on_time = alike, late = alike;
    on_time.push_back(std::string("pipeline.schedule=") + schedule);
    late.insert(late.end(), {"pipeline.sync_steps=100%", std::string("pipeline.sync_schedule=") + schedule});
    EXPECT_EQ(run_of(staged(late)).weights_hash, run_of(staged(on_time)).weights_hash) << schedule;
  }
}

TEST_F(StageWorker, AShareOfSynchronousStepsBecomesANumberOfTheRecipe) {
  const Recipe asked = staged(steady({"pipeline.sync_steps=25%"}));
  const Result first = run_of(asked, {.dir = home_ / "run"});
  const Recipe resolved = make_recipe(read_recipe(home_ / "run" / "recipe.toml"));
  EXPECT_FALSE(resolved.pipeline.sync_steps.share);
  EXPECT_EQ(resolved.pipeline.sync_steps.count, 4) << "a quarter of 14";
  EXPECT_EQ(run_of(resolved).weights_hash, first.weights_hash);
  EXPECT_EQ(run_of(asked, {.dir = home_ / "run", .resume = true}).weights_hash, first.weights_hash);
  ASSERT_TRUE(first.sync);
  EXPECT_EQ(first.sync->steps, 4);
  EXPECT_GT(first.sync->seconds, 0);
  EXPECT_LT(first.sync->seconds, first.seconds);
  ASSERT_TRUE(first.sync->utilisation_after);
  const double mixed = (first.sync->utilisation * first.sync->seconds +
                        *first.sync->utilisation_after * (first.seconds - first.sync->seconds)) /
                       first.seconds;
  EXPECT_NEAR(mixed, first.utilisation, 1e-9) << "the two parts make the whole";
}

TEST_F(StageWorker, ARunThatBeginsWithACheckpointCountsTheSynchronousStepsFromTheFirstUpdateOfAll) {
  const std::vector<std::string> late = {"pipeline.sync_steps=6", "pipeline.microbatches=2", "train.steps=12",
                                         "pipeline.predict=1"};
  Recipe first = staged(late);
  first.train.save_every = 4, first.train.keep_checkpoints = 9;
  run_of(first, {.dir = home_ / "first"});
  Recipe r = staged(late);
  const auto from = [&](int64_t step) { return home_ / "first" / "checkpoints" / fmt::format("step-{}", step); };
  EXPECT_EQ(run_of(r, {.from = from(4)}).weights_hash, run_of(r).weights_hash)
      << "in the beginning nothing is in flight";
  EXPECT_EQ(run_of(r, {.from = from(4)}).sync->steps, 6);
  EXPECT_FALSE(run_of(r, {.from = from(8)}).sync) << "its beginning is over";
}

TEST_F(StageWorker, OptionsAgainstLatenessThatDoNotFitAreRefusedByName) {
  const auto error = [&](const std::vector<std::string>& keys) { return error_of(staged(keys)); };
  EXPECT_EQ(error({"pipeline.preset=steady"}),
            "pipeline.preset = \"steady\" needs optim.name = \"muon\", got \"nadamw\"");
  EXPECT_EQ(error({"pipeline.preset=steady", "pipeline.schedule=gpipe"}),
            "pipeline.preset = \"steady\" needs pipeline.schedule = \"async_1f1b\", got \"gpipe\"");
  EXPECT_EQ(error(steady({"pipeline.stash=false"})),
            "pipeline.preset = \"steady\" needs pipeline.stash = true, got false");
  EXPECT_EQ(error(steady({"strategy.name=one_bit_adam"})),
            "pipeline.preset = \"steady\" needs a strategy that takes an update rule, got \"one_bit_adam\"");
  for (const char* key : {"predict", "rate_power", "sync_steps"})
    EXPECT_EQ(error({fmt::format("pipeline.{}=1", key), "pipeline.stash=false"}),
              fmt::format("pipeline.{} needs pipeline.stash = true, got false", key));
  EXPECT_EQ(error({"pipeline.predict=1", "strategy.name=one_bit_adam"}),
            "pipeline.predict needs a strategy that takes an update rule, got \"one_bit_adam\", which is one");
  EXPECT_EQ(
      error({"pipeline.sync_steps=10%", "pipeline.microbatches=1", "train.seconds=1"}),
      "pipeline.sync_steps = \"10%\" is a share of steps that are not known beforehand: give a number, or the run "
      "train.steps or train.tokens instead of train.seconds");
  EXPECT_EQ(error({"pipeline.sync_steps=2", "pipeline.microbatches=3"}),
            "pipeline.microbatches must divide train.batch, got 3 and 2");
}

TEST_F(StageWorker, CountsWhatItSendsBetweenStages) {
  const Result done = run_of(staged({"pipeline.hop=2"}));
  // 14 minibatches of 2 x 16 tokens of width 64, there and back over two borders, by three ranks
  EXPECT_EQ(*done.stage_bytes, 14.0 * 2 * 16 * 64 * 4 * 4 / 3);
  EXPECT_EQ(done.wire_bytes, 0);
  EXPECT_FALSE(run_of(recipe()).stage_bytes);
}

TEST_F(StageWorker, OptionsThatSayAutoBecomeNumbersOfTheRecipe) {
  const Recipe asked = staged({"pipeline.hop=auto", "pipeline.cut=measured", "link.stages=none/8ms"});
  Watch watch;
  const Result first = run(asked, {.dir = home_ / "run"}, watch);
  const Recipe resolved = make_recipe(read_recipe(home_ / "run" / "recipe.toml"));
  EXPECT_FALSE(resolved.pipeline.hop.automatic);
  EXPECT_GT(resolved.pipeline.hop.count, 1) << "8 ms are more than such a stage computes";
  EXPECT_EQ(resolved.pipeline.cut.find_first_not_of("0123456789,"), std::string::npos) << resolved.pipeline.cut;
  ASSERT_EQ(watch.start.notes.size(), 2);
  EXPECT_TRUE(watch.start.notes[0].starts_with("cut ")) << watch.start.notes[0];
  EXPECT_TRUE(watch.start.notes[1].starts_with("hop ")) << watch.start.notes[1];
  EXPECT_EQ(run_of(resolved).weights_hash, first.weights_hash) << "the recipe that was written says it all";
  EXPECT_EQ(run_of(asked, {.dir = home_ / "run", .resume = true}).weights_hash, first.weights_hash);
}

TEST_F(StageWorker, StagesThatDoNotFitAreRefusedByName) {
  EXPECT_EQ(error_of(staged({"workers.stages=9"})),
            "workers.stages must be from 1 to 4, as many as the model has units (embedding, 2 layers, head), got 9");
  EXPECT_EQ(error_of(staged({"pipeline.schedule=gpipe", "pipeline.microbatches=3"})),
            "pipeline.microbatches must divide train.batch, got 3 and 2");
  EXPECT_TRUE(error_of(staged({"model.tied=true"})).find("needs pipeline.tie = \"delayed\"") != std::string::npos);
  EXPECT_TRUE(error_of(staged({"pipeline.cut=2,2"})).starts_with("pipeline.cut must be"))
      << error_of(staged({"pipeline.cut=2,2"}));
  EXPECT_TRUE(
      error_of(staged({"model.tied=true", "pipeline.schedule=gpipe", "pipeline.microbatches=1", "strategy.name=co2"}))
          .find("needs strategy.name = \"all_reduce\"") != std::string::npos);
}

TEST_F(StageWorker, ALossThatIsNotFiniteEndsTheRunWithItsReason) {
  const std::string error = error_of(staged({"optim.name=sgd", "optim.lr=1e3", "optim.clip=inf", "train.steps=60"}));
  EXPECT_TRUE(error.find("not finite") != std::string::npos) << error;
}

TEST_F(StageWorker, NormsOfASynchronousPipelineAreAddedUpOnceAStep) {
  const std::vector<std::string> keys = {"workers.replicas=1", "workers.stages=2", "pipeline.schedule=1f1b",
                                         "pipeline.microbatches=2", "train.steps=10"};
  auto unclipped = keys;
  unclipped.push_back("optim.clip=inf");
  const Result clipped = run_of(recipe(keys)), free = run_of(recipe(unclipped));
  EXPECT_EQ(*clipped.stage_bytes, *free.stage_bytes) << "clipping takes the norm that the noise scale has anyway";
  const double activations = 2 * 16 * 64 * 4;  // rows x context x width of fp32: down or up, a rank
  EXPECT_EQ(*clipped.stage_bytes, 10 * (activations + 2 * 8)) << "two numbers a step";
}

}  // namespace
}  // namespace thinwire::train
