// Runs whose ranks share nothing: processes, each with its own memory, its own copy of the text and its own run
// directory. They end on the weights of the same run by threads.
#include "tests/comm/processes.h"

#include <fmt/ranges.h>

#include "tests/train/small_run.h"
#include "thinwire/checkpoint/checkpoint.h"

namespace thinwire::train {
namespace {

// words: the home of all ranks, "fresh" or "resume", the step to stop after (0: none), the recipe's keys. Each rank has
// its text and its run below home/RANK.
std::string train_rank(comm::World& world, const comm::Arguments& words) {
  const fs::path own = fs::path(words.at(0)) / std::to_string(world.rank());
  RecipeText text;
  set_keys(text, {words.begin() + 3, words.end()});
  set_key(text, "data.path=" + (own / "text.txt").string());
  std::atomic<bool> stop = false;
  Watch watch;
  const int64_t last = std::stoll(words.at(2));
  watch.after = [&](int64_t step) { stop = last > 0 && step >= last; };
  const Result result =
      run_rank(make_recipe(text), {.dir = own / "run", .resume = words.at(1) == "resume", .stop = &stop}, watch, world);
  return world.is_rank0() ? result.weights_hash : "";
}
const comm::RankMain kTrain("train", train_rank);

class ProcessRun : public SmallRun {
 protected:
  std::vector<std::string> keys_of(const std::vector<std::string>& more) const {
    std::vector<std::string> keys = {"model.context=16",   "train.batch=2",       "train.steps=14",
                                     "optim.lr=3e-3",      "train.eval_every=7",  "train.eval_windows=8",
                                     "train.save_every=5", "optim.warmup_steps=5"};
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  }

  // What rank 0 prints; the others print nothing.
  std::string hash_by_processes(int ranks, const std::string& how, int64_t stop,
                                const std::vector<std::string>& more) const {
    for (int rank = 0; rank < ranks; ++rank) {
      fs::create_directories(home_ / std::to_string(rank));
      fs::copy_file(home_ / "text.txt", home_ / std::to_string(rank) / "text.txt", fs::copy_options::skip_existing);
    }
    std::vector<std::string> words = {"train", home_.string(), how, std::to_string(stop)};
    for (const auto& key : keys_of(more)) words.push_back(key);
    const auto ended = comm::run_processes(ranks, words);
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_EQ(ended[rank].code, 0) << "rank " << rank << ": " << ended[rank].text;
    return ended[0].text;
  }

  std::string hash_by_threads(const std::vector<std::string>& more) const {
    RecipeText text;
    set_keys(text, keys_of(more));
    set_key(text, "data.path=" + (home_ / "text.txt").string());
    return run_of(make_recipe(text)).weights_hash;
  }

  void expect_same(int ranks, const std::vector<std::string>& more) const {
    const std::string by_threads = hash_by_threads(more);
    EXPECT_EQ(hash_by_processes(ranks, "fresh", 0, more), by_threads) << fmt::format("{}", fmt::join(more, " "));
    for (int rank = 0; rank < ranks; ++rank) fs::remove_all(home_ / std::to_string(rank));
    hash_by_processes(ranks, "fresh", 6, more);  // stopped, with a checkpoint in every rank's own directory
    for (int rank = 0; rank < ranks; ++rank)
      EXPECT_GE(checkpoint::newest(home_ / std::to_string(rank) / "run"), 6) << "rank " << rank;
    EXPECT_EQ(hash_by_processes(ranks, "resume", 0, more), by_threads)
        << "resumed: " << fmt::format("{}", fmt::join(more, " "));
    for (int rank = 0; rank < ranks; ++rank) fs::remove_all(home_ / std::to_string(rank));
  }
};

TEST_F(ProcessRun, AllReduceEndsOnTheWeightsOfThreads) {
  expect_same(3, {"workers.replicas=3", "strategy.name=all_reduce", "strategy.codec=int8"});
}

TEST_F(ProcessRun, PeriodicAveragingEndsOnTheWeightsOfThreads) {
  expect_same(2, {"workers.replicas=2", "strategy.name=co2", "strategy.period=3", "link.replicas=20mbit/2ms"});
}

TEST_F(ProcessRun, SlicesEndOnTheWeightsOfThreads) {
  expect_same(3, {"workers.replicas=3", "strategy.name=drip", "optim.name=muon", "train.dtype=bfloat16"});
  expect_same(2, {"workers.replicas=2", "strategy.name=asyncmesh", "strategy.slices=4", "strategy.delay=3"});
}

TEST_F(ProcessRun, OneBitEndsOnTheWeightsOfThreads) {
  expect_same(2, {"workers.replicas=2", "strategy.name=one_bit_lamb", "strategy.freeze=4"});
  expect_same(2, {"workers.replicas=2", "strategy.name=zero_one_adam", "strategy.freeze=4"});
}

TEST_F(ProcessRun, APipelineEndsOnTheWeightsOfThreads) {
  expect_same(3, {"workers.replicas=1", "workers.stages=3", "model.layers=3", "pipeline.hop=2",
                  "link.stages=50mbit/1ms", "optim.name=nadamw"});
  expect_same(2, {"workers.replicas=1", "workers.stages=2", "model.layers=2", "model.tied=true",
                  "pipeline.schedule=1f1b", "pipeline.microbatches=2"});
}

TEST_F(ProcessRun, ASteadyPipelineEndsOnTheWeightsOfThreads) {
  expect_same(3, {"workers.replicas=1", "workers.stages=3", "model.layers=3", "pipeline.hop=2", "optim.name=muon",
                  "pipeline.preset=steady", "pipeline.sync_steps=5", "pipeline.microbatches=2", "model.tied=true",
                  "pipeline.tie=delayed", "link.stages=50mbit/1ms"});
  expect_same(4, {"workers.replicas=2", "workers.stages=2", "model.layers=2", "optim.name=muon", "strategy.name=drip",
                  "pipeline.preset=steady", "pipeline.sync_steps=8", "pipeline.microbatches=2"});
}

TEST_F(ProcessRun, AMeshEndsOnTheWeightsOfThreads) {
  expect_same(4, {"workers.replicas=2", "workers.stages=2", "model.layers=2", "strategy.name=slowmo",
                  "strategy.period=4", "model.tied=true", "pipeline.tie=delayed"});
}

TEST_F(ProcessRun, WhatIsMeasuredIsDecidedByRankZero) {
  const std::vector<std::string> keys = {"workers.replicas=1",    "workers.stages=2",  "model.layers=3",
                                         "pipeline.cut=measured", "pipeline.hop=auto", "link.stages=20mbit/5ms"};
  EXPECT_FALSE(hash_by_processes(2, "fresh", 0, keys).empty());
  const Recipe first = make_recipe(read_recipe(home_ / "0" / "run" / "recipe.toml")),
               second = make_recipe(read_recipe(home_ / "1" / "run" / "recipe.toml"));
  EXPECT_EQ(first.pipeline.cut, second.pipeline.cut);
  EXPECT_NE(first.pipeline.cut, "measured");
  EXPECT_EQ(first.pipeline.hop.count, second.pipeline.hop.count);
}

TEST_F(ProcessRun, ARankWithAnotherTextIsNamed) {
  for (int rank = 0; rank < 2; ++rank) {
    fs::create_directories(home_ / std::to_string(rank));
    fs::copy_file(home_ / "text.txt", home_ / std::to_string(rank) / "text.txt");
  }
  std::ofstream(home_ / "1" / "text.txt", std::ios::app) << "one line more\n";
  std::vector<std::string> words = {"train", home_.string(), "fresh", "0"};
  for (const auto& key : keys_of({"workers.replicas=2"})) words.push_back(key);
  for (const auto& ended : comm::run_processes(2, words)) {
    EXPECT_EQ(ended.code, 1);
    EXPECT_NE(ended.text.find("rank 1 reads another text than rank 0"), std::string::npos) << ended.text;
  }
}

}  // namespace
}  // namespace thinwire::train
