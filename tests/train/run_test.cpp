#include "thinwire/train/run.h"

#include <c10/util/Exception.h>

#include <set>

#include "tests/train/small_run.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/optim/flat.h"
#include "thinwire/train/inspect.h"

namespace thinwire::train {
namespace {

class Run : public SmallRun {};

optim::Layout layout_of(const Recipe& recipe) {
  const auto model = models::make_model(recipe.model, data::kVocabulary, 1);
  return optim::make_layout(models::parameters_by_unit(*model));
}

TEST_F(Run, OneReplicaOfLocalSgdIsAllReduceBitForBit) {
  const auto alone = [&](const std::vector<std::string>& keys) {
    auto all = keys;
    all.push_back("workers.replicas=1");
    return run_of(recipe(all)).weights_hash;
  };
  EXPECT_EQ(alone({"strategy.name=local_sgd", "strategy.period=3"}), alone({}));
}

TEST_F(Run, IsTheSameTwiceAndAnotherWithAnotherSeed) {
  EXPECT_EQ(run_of(recipe()).weights_hash, run_of(recipe()).weights_hash);
  EXPECT_NE(run_of(recipe()).weights_hash, run_of(recipe({"train.seed=2"})).weights_hash);
}

TEST_F(Run, RidesThroughJitterSlowStretchesAndOutagesWithTheSameWeights) {
  for (const std::string strategy : {"all_reduce", "slowmo", "co2"}) {
    Recipe rough = recipe_for(strategy);
    const std::string calm = run_of(rough).weights_hash;
    from_text("200mbit:100mbit/1ms~2ms, at 0.1s 20mbit, at 0.2s down 0.3s, at 0.6s 500mbit", rough.link.replicas);
    rough.train.timeout = 0.25;  // shorter than the outage: what is under way is not lost
    EXPECT_EQ(run_of(rough).weights_hash, calm) << strategy;
  }
}

TEST_F(Run, AnyCodecGoesWithAnyStrategyAndResumesToTheBit) {
  for (const char* codec : {"one_bit", "int4", "bf16", "topk:0.1"})
    for (const char* name : {"all_reduce", "local_sgd", "co2"}) {
      Recipe r = recipe_for(name);
      r.strategy.all_reduce.codec.text = r.strategy.periodic.codec.text = codec;
      const Result whole = run_of(r), plain = run_of(recipe_for(name));
      EXPECT_LT(whole.wire_bytes, 0.6 * plain.wire_bytes) << codec << " " << name;
      EXPECT_LT(whole.val_loss, plain.val_loss + 1) << codec << " " << name;
      std::atomic<bool> stop = false;
      Watch watch;
      watch.after = [&](int64_t step) { stop = step >= 6; };
      const fs::path dir = home_ / (std::string(name) + codec);
      EXPECT_FALSE(run(r, {.dir = dir, .stop = &stop}, watch).finished);
      EXPECT_EQ(run_of(r, {.dir = dir, .resume = true}).weights_hash, whole.weights_hash) << codec << " " << name;
    }
}

TEST_F(Run, AveragedGradientsTellTheBatchSizeWorthUsing) {
  const Result averaged = run_of(recipe());
  ASSERT_TRUE(averaged.noise_scale);
  EXPECT_GT(*averaged.noise_scale, 0);
  EXPECT_FALSE(run_of(recipe_for("local_sgd")).noise_scale) << "nobody has the mean gradient";
}

TEST_F(Run, Learns) {
  Watch watch;
  const Result result =
      run(recipe({"strategy.name=co2", "strategy.period=5", "train.steps=40", "train.eval_every=20"}), {}, watch);
  EXPECT_LT(watch.steps.back().loss, watch.steps.front().loss - 1);
  ASSERT_EQ(watch.evaluations.size(), 3);
  EXPECT_LT(result.val_loss, watch.evaluations.front().val_loss);
  EXPECT_EQ(result.val_loss, watch.evaluations.back().val_loss);
  EXPECT_TRUE(watch.evaluations.back().final);
  EXPECT_EQ(watch.evaluations.back().consensus_distance, 0) << "finish() leaves all replicas on the same weights";
}

TEST_F(Run, ReportsEveryStepInOrder) {
  Watch watch;
  run(recipe(), {}, watch);
  ASSERT_EQ(watch.steps.size(), 14);
  for (int64_t i = 0; i < 14; ++i) {
    const Progress& p = watch.steps[i];
    EXPECT_EQ(p.step, i + 1);
    EXPECT_EQ(p.tokens, (i + 1) * 2 * 2 * 16);
    EXPECT_DOUBLE_EQ(p.share, static_cast<double>(i + 1) / 14);
    EXPECT_GE(p.seconds, p.compute_s + p.exposed_s - 1e-6);
  }
  EXPECT_DOUBLE_EQ(watch.steps[0].lr, 3e-3 / 5);
  EXPECT_EQ(watch.start.planned_steps, 14);
  EXPECT_EQ(watch.start.from_step, 0);
}

TEST_F(Run, AllReduceSendsTheGradientEveryStep) {
  const Recipe r = recipe({"workers.replicas=3"});
  const auto last = layout_of(r).pieces.back();
  const Result result = run_of(r);
  EXPECT_DOUBLE_EQ(result.wire_bytes, 14 * 2 * (2.0 / 3) * 4 * static_cast<double>(last.at + last.numel));
  EXPECT_EQ(result.finish_bytes, 0);
}

TEST_F(Run, PeriodicSendsTheWeightsEveryRound) {
  for (const char* name : {"local_sgd", "slowmo", "co2", "eager_diloco"}) {
    const Recipe r = recipe({"workers.replicas=3", std::string("strategy.name=") + name, "strategy.period=4"});
    const double exchange = 2 * (2.0 / 3) * 4 * static_cast<double>(layout_of(r).numel);
    const Result result = run_of(r);
    EXPECT_DOUBLE_EQ(result.wire_bytes, 3 * exchange) << name << ": 14 steps are 3 rounds";
    EXPECT_DOUBLE_EQ(result.finish_bytes, exchange) << name << ": and a rest";
  }
}

TEST_F(Run, WithoutADirectoryWritesNothing) {
  run_of(recipe({"train.save_every=1"}));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(home_)) names.insert(entry.path().filename());
  EXPECT_EQ(names, std::set<std::string>{"text.txt"});
}

TEST_F(Run, StoppedAndResumedEndsOnTheSameWeightsUnderEveryStrategy) {
  for (const auto& name : dp::strategy_names()) {
    Recipe r = recipe_for(name);
    r.train.steps = 30;
    const Result whole = run_of(r);
    const fs::path dir = home_ / name;
    int64_t before = 0;
    for (const int64_t at : {1, 6, 12}) {  // three steps later it stops, or more where the machine is busy
      std::atomic<bool> stop = false;
      Watch watch;
      watch.after = [&](int64_t step) { stop = step >= at; };
      const Result stopped = run(r, {.dir = dir, .resume = true, .stop = &stop}, watch);
      EXPECT_FALSE(stopped.finished) << name;
      EXPECT_GE(stopped.steps, at + 3) << name;
      EXPECT_EQ(watch.start.from_step, before) << name;
      EXPECT_EQ(checkpoint::newest(dir), stopped.steps) << name;
      before = stopped.steps;
    }
    const Result resumed = run_of(r, {.dir = dir, .resume = true});
    EXPECT_TRUE(resumed.finished) << name;
    EXPECT_EQ(resumed.weights_hash, whole.weights_hash) << name;
    EXPECT_EQ(resumed.val_loss, whole.val_loss) << name;
    EXPECT_EQ(resumed.wire_bytes, whole.wire_bytes) << name;
    EXPECT_EQ(resumed.steps, whole.steps) << name;
  }
}

TEST_F(Run, InBf16ARunLearnsTheSameAndResumesBitForBit) {
  Recipe r = recipe({"strategy.name=one_bit_lamb", "strategy.freeze=12", "train.steps=24", "train.save_every=15"});
  const Result whole = run_of(r);
  r.train.dtype = "bfloat16";
  const Result rounded = run_of(r, {.dir = home_ / "whole"});
  EXPECT_NE(rounded.weights_hash, whole.weights_hash);
  EXPECT_NEAR(rounded.val_loss, whole.val_loss, 0.02);
  fs::create_directories(home_ / "half/checkpoints");
  fs::copy(home_ / "whole/recipe.toml", home_ / "half/recipe.toml");
  fs::copy(home_ / "whole/checkpoints/step-15", home_ / "half/checkpoints/step-15", fs::copy_options::recursive);
  EXPECT_EQ(run_of(r, {.dir = home_ / "half", .resume = true}).weights_hash, rounded.weights_hash);
}

TEST_F(Run, MuonTrainsUnderEveryKindOfStrategyAndSaysWhatItCosts) {
  for (const char* name : {"all_reduce", "co2", "drip"}) {
    Recipe r = recipe_for(name);
    const double before = run_of(r).val_loss;
    r.optim.name = "muon";
    r.optim.lr = 0.02;
    const Result result = run_of(r);
    EXPECT_LT(result.val_loss, before) << name;
    EXPECT_GT(result.update_s, 0) << name;
    EXPECT_LT(result.update_s, result.compute_s) << name;
  }
}

TEST_F(Run, ADelayOfAutoBecomesANumberThatTheRunsRecipeSays) {
  const auto asked = recipe({"strategy.name=drip", "strategy.delay=auto", "link.replicas=100mbit/5ms"});
  Watch watch;
  const Result first = run(asked, {.dir = home_ / "run"}, watch);
  ASSERT_FALSE(watch.start.notes.empty());
  const Recipe stored = make_recipe(read_recipe(home_ / "run/recipe.toml"));
  const int64_t delay = stored.strategy.slices.delay.steps;
  EXPECT_FALSE(stored.strategy.slices.delay.automatic);
  EXPECT_GE(delay, 1);
  EXPECT_LE(delay, 8);
  EXPECT_TRUE(watch.start.notes[0].starts_with(fmt::format("delay {}: ", delay))) << watch.start.notes[0];
  EXPECT_EQ(run_of(stored).weights_hash, first.weights_hash) << "the number says all";
  EXPECT_EQ(run_of(asked, {.dir = home_ / "run", .resume = true}).weights_hash, first.weights_hash)
      << "a run that is gone on with keeps its number";
}

TEST_F(Run, SlicesThatDoNotFitAreRefusedBeforeAnythingIsWritten) {
  const RunOptions options{.dir = home_ / "run"};
  EXPECT_TRUE(error_of(recipe({"strategy.name=drip", "strategy.slices=5000"}), options)
                  .starts_with("strategy.slices = 5000 is too many for a model of "));
  EXPECT_TRUE(error_of(recipe({"strategy.name=drip", "train.seconds=1", "strategy.slices=\"8, at 10% 4\""}), options)
                  .starts_with("strategy.slices changes at 10% of a run whose steps are not known beforehand"));
  EXPECT_FALSE(fs::exists(options.dir));
}

TEST_F(Run, LateAveragesAreJudgedAtEvaluations) {
  auto errors = [&](const char* name, const char* key) {
    Watch watch;
    run(recipe({std::string("strategy.name=") + name, key, "train.eval_every=4", "train.steps=16"}), {}, watch);
    std::vector<std::optional<double>> list;
    for (const auto& evaluation : watch.evaluations) list.push_back(evaluation.prediction_error);
    return list;
  };
  const auto loscar = errors("loscar", "strategy.delay=3"), sparta = errors("async_sparta", "strategy.delay=3");
  const auto cocod = errors("cocod", "strategy.period=4"), waiting = errors("local_sgd", "strategy.period=4");
  ASSERT_EQ(loscar.size(), 5);  // and one after finish()
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_NEAR(loscar[i].value(), 0, 1e-3);
    EXPECT_NEAR(sparta[i].value(), 1, 1e-3);
    EXPECT_FALSE(waiting[i]);
  }
  EXPECT_NEAR(cocod[3].value(), 0, 1e-3);
  EXPECT_FALSE(cocod[0]);
  EXPECT_FALSE(loscar[4]);
}

TEST_F(Run, AWishToStopThatComesWithTheLastStepIsTooLate) {
  std::atomic<bool> stop = false;
  Watch watch;
  watch.after = [&](int64_t step) { stop = step == 14; };
  EXPECT_TRUE(run(recipe(), {.dir = home_ / "run", .resume = false, .stop = &stop}, watch).finished);
}

TEST_F(Run, KeepsTheNewestCheckpoints) {
  Watch watch;
  run(recipe({"train.save_every=4", "train.keep_checkpoints=3"}), {.dir = home_ / "run"}, watch);
  EXPECT_EQ(watch.saves, (std::vector<int64_t>{4, 8, 12, 14}));
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(home_ / "run/checkpoints")) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"step-8", "step-12", "step-14"}));
}

TEST_F(Run, ALossThatIsNotFiniteIsAnError) {
  const std::vector<std::string> wild = {"optim.name=sgd", "optim.lr=1000", "optim.clip=inf", "optim.warmup_steps=0",
                                         "optim.weight_decay=1000"};
  EXPECT_TRUE(error_of(recipe(wild)).starts_with("[train] the loss of replica ")) << error_of(recipe(wild));
  EXPECT_TRUE(error_of(recipe(wild)).find("try a smaller optim.lr, optim.clip") != std::string::npos);
  auto short_and_wild = wild;
  short_and_wild.push_back("train.steps=2");
  EXPECT_TRUE(error_of(recipe(short_and_wild)).starts_with("[train] the held-out loss is not finite"));
}

TEST_F(Run, WhatRankZeroThrowsIsThrownAndNobodyHangs) {
  Watch watch;
  watch.after = [](int64_t step) {
    if (step == 3) throw std::runtime_error("the observer left");
  };
  try {
    run(recipe({"workers.replicas=3"}), {}, watch);
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the observer left");
  }
}

TEST_F(Run, RefusesADirectoryThatIsNotItsOwn) {
  const fs::path dir = home_ / "run";
  run_of(recipe(), {.dir = dir});
  EXPECT_TRUE(error_of(recipe(), {.dir = dir}).ends_with("choose another --dir, or go on with it by --resume"));
  EXPECT_TRUE(error_of(recipe({"optim.lr=0.5"}), {.dir = dir, .resume = true})
                  .ends_with("was started with another recipe: optim.lr is 0.003 there and 0.5 here"));
  EXPECT_TRUE(error_of(recipe(), {.dir = home_ / "text.txt"}).ends_with("is not a directory"));
  EXPECT_TRUE(
      error_of(recipe(), {.dir = home_, .resume = true}).ends_with("holds no run: there is no recipe.toml in it"));
}

TEST_F(Run, ChecksTextAndModelBeforeItMakesADirectory) {
  const fs::path dir = home_ / "run";
  EXPECT_NE(error_of(recipe({"data.path=" + (home_ / "nowhere").string()}), {.dir = dir}), "no error");
  EXPECT_NE(error_of(recipe({"model.heads=3"}), {.dir = dir}), "no error");
  EXPECT_NE(error_of(recipe({"model.context=100000"}), {.dir = dir}), "no error");
  EXPECT_FALSE(fs::exists(dir));
}

TEST_F(Run, ACheckpointNamesTheWeightsThatReplicasAgreeOnUnderEveryStrategy) {
  for (const auto& name : dp::strategy_names()) {
    Recipe r = recipe_for(name);
    r.train.steps = 11;
    const fs::path dir = home_ / name;
    Watch watch;
    const Result result = run(r, {.dir = dir}, watch);
    const auto facts = checkpoint::read_manifest(dir / "checkpoints" / "step-11").facts;
    const std::string entry = facts.at("agreed");
    const auto loaded = checkpoint::load(dir / "checkpoints" / "step-11", 0).state;
    ASSERT_TRUE(loaded.contains(entry)) << name << ": " << entry;
    const auto other = checkpoint::load(dir / "checkpoints" / "step-11", 1).state;
    EXPECT_TRUE(loaded.at(entry).value.equal(other.at(entry).value)) << name << ": all replicas have the same";
    const Trained trained = load_trained(dir / "checkpoints" / "step-11");
    EXPECT_EQ(trained.weights_hash, optim::weights_hash(layout_of(r), loaded.at(entry).value)) << name;
  }
}

// An answer takes 0.2 s and 100 steps or so: they go on without it.
TEST_F(Run, ASlowControlNetworkIsNotWaitedFor) {
  const std::vector<std::string> keys = {"train.steps=600", "strategy.name=local_sgd", "strategy.period=600"};
  std::vector<std::string> slow = keys;
  slow.push_back("link.control=none/100ms");
  const Result fast = run_of(recipe(keys)), far = run_of(recipe(slow));
  EXPECT_EQ(far.weights_hash, fast.weights_hash);
  EXPECT_GT(far.control_bytes, 0);
  EXPECT_NEAR(far.seconds, far.compute_s + far.exposed_s, 1e-6) << "what was waited for answers is in the account";
  EXPECT_GT(far.utilisation, fast.utilisation - 0.25) << "waiting for each answer would take 120 s";
}

TEST_F(Run, MoreRanksThanAProcessShouldHaveAreRefused) {
  EXPECT_EQ(error_of(recipe({"workers.replicas=256", "workers.stages=64", "model.layers=62"})),
            "workers: 256 replicas x 64 stages are 16384 ranks; as threads of one process there can be 1024");
}

}  // namespace
}  // namespace thinwire::train
