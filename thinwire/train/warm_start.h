// A checkpoint as the beginning of another run, which may have other stages, replicas, links or another strategy.
//
// What is taken from it: the weights its replicas agreed on, the update rule's moments (new replica i takes those of
// old replica i mod M), and how many steps were done, so that learning rate and data go on from there. What it had
// under way between replicas or stages is not: the new run starts with an empty pipeline and a fresh strategy. Resuming
// the same run is something else, and exact (run.h).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "thinwire/base/state.h"
#include "thinwire/models/model.h"
#include "thinwire/train/recipe.h"

namespace thinwire::train {

struct WarmStart {
  std::filesystem::path from;                 // the checkpoint's folder
  int64_t step = 0;                           // that were done
  std::map<std::string, at::Tensor> weights;  // by parameter
  std::map<std::string, at::Tensor> moments;  // of the rule, flat, of the whole model
  std::map<std::string, at::Tensor> numbers;  // of the rule, 0-d
};

// The folder of a checkpoint: `path` itself, or the newest one of a run. BadInput where there is none, or where it is
// of another model or update rule than `recipe`'s.
std::filesystem::path find_warm_start(const std::filesystem::path& path, const Recipe& recipe);
// BadInput where there is none for this recipe, or where it has done all the steps that the recipe asks for.
void check_warm_start(const std::filesystem::path& path, const Recipe& recipe);
// What `replica` begins with.
WarmStart read_warm_start(const std::filesystem::path& folder, int replica);

// Copies the weights into the model.
void begin_with(models::Model& model, const WarmStart& warm_start);
// The state of a strategy that has done nothing yet, with its moments in its rule; `of` takes the strategy's
// part of whole flat weights.
template <class F>
State with_moments(State state, const WarmStart& warm_start, F&& of) {
  for (auto& [name, entry] : state) {
    if (!name.starts_with("rule.")) continue;
    const std::string key = name.substr(5);
    if (const auto it = warm_start.moments.find(key); it != warm_start.moments.end()) entry.value = of(it->second);
    if (const auto it = warm_start.numbers.find(key); it != warm_start.numbers.end()) entry.value = it->second;
  }
  return state;
}

}  // namespace thinwire::train
