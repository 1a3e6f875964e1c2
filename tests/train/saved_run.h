// Tiny runs of every kind whose ranks' saved states can be changed before other ranks load them: what a test and a
// fuzzer of foreign checkpoints share.
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "thinwire/base/errors.h"
#include "thinwire/comm/world.h"
#include "thinwire/train/mesh.h"
#include "thinwire/train/worker.h"

namespace thinwire::train {

class SavedRun {
 public:
  // Trains `keys` for some steps and keeps what every rank would save.
  explicit SavedRun(std::string keys) : name(std::move(keys)), recipe_(recipe_of(name)) {
    saved.resize(recipe_.ranks());
    each_rank([&](int rank, Worker& worker) {
      for (int64_t t = 1; t <= kSteps; ++t) worker.step(t);
      for (const auto& [entry, held] : worker.state().state) saved[rank][entry] = {held.value.clone(), held.scope};
    });
  }

  // New ranks load `states` and go on: two steps, an evaluation, a save and the end. Throws what the first one threw.
  // Whatever is thrown while a state is loaded comes as Refused.
  struct Refused : std::runtime_error {
    Refused(const std::exception& why, bool bad_input) : std::runtime_error(one_line(why)), bad_input(bad_input) {}
    bool bad_input;
  };
  void resume(const std::vector<State>& states) const {
    each_rank([&](int rank, Worker& worker) {
      try {
        worker.load(states[rank]);
      } catch (const BadInput& error) {
        throw Refused(error, true);
      } catch (const std::exception& error) {
        throw Refused(error, false);
      }
      for (int64_t t = kSteps + 1; t <= kSteps + 2; ++t) worker.step(t);
      worker.evaluate();
      worker.state();
      worker.finish();
    });
  }

  // Of keys like "strategy.name=co2 strategy.period=2"; everything else is as small as it can be.
  static Recipe recipe_of(const std::string& keys) {
    RecipeText text;
    std::istringstream all(
        "model.layers=1 model.width=16 model.heads=1 model.context=4 data.source=synthetic data.length=4KiB "
        "train.batch=2 train.steps=9 train.eval_windows=2 workers.replicas=2 " +
        keys);
    for (std::string key; all >> key;) set_key(text, key);
    return make_recipe(text);
  }

  const Recipe& recipe() const { return recipe_; }

  const std::string name;    // the recipe's keys, "strategy.name=co2 strategy.period=2"
  std::vector<State> saved;  // by rank

 private:
  static constexpr int64_t kSteps = 5;

  template <class F>
  void each_rank(F&& f) const {
    static const auto text = data::load_text(recipe_.data, recipe_.model.context);
    comm::run_threads(static_cast<int>(recipe_.ranks()),
                      [&](comm::World& world) {
                        const auto worker = make_worker(recipe_, text, make_mesh(recipe_, world, nullptr));
                        f(world.rank(), *worker);
                      },
                      {.timeout_s = 10});
  }

  const Recipe recipe_;
};

// Every strategy, early and late in its life; every update rule; every kind of pipeline.
inline std::vector<std::string> kinds_of_runs() {
  const std::map<dp::Family, std::string> small = {{dp::Family::all_reduce, ""},
                                                   {dp::Family::periodic, " strategy.period=2"},
                                                   {dp::Family::slices, " strategy.slices=2 strategy.delay=2"},
                                                   {dp::Family::one_bit, " strategy.freeze=3"}};
  std::vector<std::string> kinds;
  for (const auto& name : dp::strategy_names())
    kinds.push_back("strategy.name=" + name + small.at(dp::family_of(name)));
  for (const char* strategy :
       {"all_reduce strategy.codec=int8", "co2 strategy.period=2 strategy.codec=int8",
        "asyncmesh strategy.slices=4 strategy.delay=3", "drip strategy.slices=2 strategy.momentum=0.5",
        "one_bit_adam strategy.freeze=auto strategy.warmup_bits=8",
        "one_bit_adam strategy.freeze=3 strategy.mode=deepspeed", "zero_one_adam strategy.freeze=100"})
    kinds.push_back(std::string("strategy.name=") + strategy);
  for (const char* rule : {"sgd", "adamw", "nadamw", "lamb", "lars", "muon", "muon optim.rest=nadamw"})
    kinds.push_back(std::string("workers.replicas=1 optim.name=") + rule);
  for (const char* pipeline :
       {"pipeline.schedule=gpipe pipeline.microbatches=2", "pipeline.schedule=1f1b pipeline.microbatches=2",
        "pipeline.schedule=zero_bubble_h1 pipeline.microbatches=2 model.tied=true", "pipeline.hop=2",
        "pipeline.stash=false", "pipeline.codec=threshold:0.5 pipeline.hop=2 train.dtype=bfloat16",
        "model.tied=true pipeline.tie=delayed pipeline.hop=2 strategy.name=drip strategy.slices=1",
        "optim.name=muon pipeline.preset=steady pipeline.sync_steps=7 pipeline.microbatches=2",
        "optim.name=muon pipeline.preset=steady pipeline.sync_steps=2 pipeline.microbatches=2 pipeline.hop=2 "
        "pipeline.codec=threshold:0.5",
        "optim.name=muon pipeline.preset=steady pipeline.sync_steps=2 pipeline.microbatches=2 pipeline.hop=2 "
        "model.tied=true pipeline.tie=delayed"})
    kinds.push_back(std::string("workers.replicas=1 workers.stages=3 ") + pipeline);
  return kinds;
}

}  // namespace thinwire::train
