// Runs that take a moment, for tests of whole runs.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "thinwire/base/errors.h"
#include "thinwire/train/run.h"

namespace thinwire::train {

namespace fs = std::filesystem;

// Records a run, and does what a test asks after a step.
struct Watch final : Observer {
  void started(const Recipe&, const Start& s) override { start = s; }
  void progressed(const Progress& p) override {
    steps.push_back(p);
    if (after) after(p.step);
  }
  void evaluated(const Evaluation& e) override { evaluations.push_back(e); }
  void saved(int64_t step) override { saves.push_back(step); }

  std::function<void(int64_t)> after;
  Start start;
  std::vector<Progress> steps;
  std::vector<Evaluation> evaluations;
  std::vector<int64_t> saves;
};

// A folder with a text, gone at the end, and recipes that train on it for a moment.
class SmallRun : public testing::Test {
 protected:
  SmallRun()
      : home_(fs::temp_directory_path() / fmt::format("thinwire_{}_{}", ::getpid(),
                                                      testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(home_);
    fs::create_directories(home_);
    std::ofstream text(home_ / "text.txt");
    for (int i = 0; i < 600; ++i) text << "a thin wire joins " << i % 10 << " distant machines\n";
  }
  ~SmallRun() override { fs::remove_all(home_); }

  Recipe recipe(const std::vector<std::string>& keys = {}) const {
    RecipeText text;
    for (const char* key : {"model.context=16", "train.batch=2", "train.steps=14", "train.eval_every=0",
                            "train.eval_windows=8", "workers.replicas=2", "optim.lr=3e-3", "optim.warmup_steps=5"})
      set_key(text, key);
    set_key(text, "data.path=" + (home_ / "text.txt").string());
    for (const auto& key : keys) set_key(text, key);
    return make_recipe(text);
  }
  // The recipe of a strategy: with rounds of 4 steps, or a freeze after step 7.
  Recipe recipe_for(const std::string& strategy) const {
    const std::string name = "strategy.name=" + strategy;
    switch (dp::family_of(strategy)) {
      case dp::Family::periodic:
        return recipe({name, "strategy.period=4"});
      case dp::Family::one_bit:
        return recipe({name, "strategy.freeze=7"});
      default:
        return recipe({name});
    }
  }

  Result run_of(const Recipe& recipe, const RunOptions& options = {}) const {
    Watch watch;
    return run(recipe, options, watch);
  }
  std::string error_of(const Recipe& recipe, const RunOptions& options = {}) const {
    try {
      run_of(recipe, options);
    } catch (const std::exception& error) {
      return one_line(error);
    }
    return "no error";
  }

  const fs::path home_;
};

}  // namespace thinwire::train
