#include "thinwire/train/warm_start.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "thinwire/base/errors.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/train/inspect.h"
#include "thinwire/train/stages.h"

namespace thinwire::train {
namespace fs = std::filesystem;
namespace {

// Both as if only [model] and the rule's name had been set.
std::optional<std::string> mismatch(const Recipe& there, const Recipe& here) {
  Recipe a, b;
  a.model = there.model, b.model = here.model;
  a.optim.name = there.optim.name, b.optim.name = here.optim.name;
  return first_difference(a, b);
}

}  // namespace

fs::path find_warm_start(const fs::path& path, const Recipe& recipe) {
  check_is_run_or_checkpoint(path);
  fs::path folder = path;
  if (!is_checkpoint(path)) {
    const int64_t step = checkpoint::newest(path);
    if (step < 0) throw BadInput("{} has no checkpoint to begin with", path.string());
    folder = checkpoint::folder_of(path, step);
  }
  if (const auto difference = mismatch(recipe_of_checkpoint(folder), recipe))
    throw BadInput("{} is of another kind of run: {}", folder.string(), *difference);
  return folder;
}

void check_warm_start(const fs::path& path, const Recipe& recipe) {
  const fs::path folder = find_warm_start(path, recipe);
  const int64_t step = step_of_checkpoint(folder), planned = recipe.planned_steps();
  if (planned > 0 && planned <= step)
    throw BadInput("{} has done {} steps, and the recipe asks for {}: there is nothing left to do", folder.string(),
                   step, planned);
}

WarmStart read_warm_start(const fs::path& folder, int replica) {
  WarmStart warm_start;
  warm_start.from = folder;
  Trained trained = load_agreed(folder);
  const models::Model& model = *trained.model;
  for (const auto& unit : model.units)
    for (const auto& parameter : unit->parameters) warm_start.weights[parameter.name] = parameter.tensor.detach();
  const auto old_replica = static_cast<int>(replica % trained.recipe.workers.replicas);
  std::vector<State> states;
  for (int stage = 0; stage < trained.recipe.workers.stages; ++stage)
    states.push_back(checkpoint::load(folder, old_replica, stage).state);
  warm_start.step = step_of_checkpoint(folder);
  for (const auto& item : with_prefix(states[0], "strategy.rule.")) {
    const std::string& name = item.first;
    if (item.second.value.dim() == 0) {
      warm_start.numbers[name] = item.second.value;
      continue;
    }
    const auto tied = states[0].find("tie.strategy.rule." + name);
    warm_start.moments[name] =
        gather_stages(trained.recipe, model, tied == states[0].end() ? at::Tensor() : tied->second.value,
                      [&](int stage, int64_t numel) {
                        const auto part = states[stage].find("strategy.rule." + name);
                        if (part == states[stage].end() || part->second.value.numel() != numel)
                          throw BadInput("{}: '{}' of {} cannot be taken into another run", folder.string(), name,
                                         trained.recipe.optim.name);
                        return part->second.value;
                      });
  }
  return warm_start;
}

void begin_with(models::Model& model, const WarmStart& warm_start) {
  at::NoGradGuard no_grad;
  for (auto& unit : model.units)
    for (auto& parameter : unit->parameters) parameter.tensor.copy_(warm_start.weights.at(parameter.name));
}

}  // namespace thinwire::train
