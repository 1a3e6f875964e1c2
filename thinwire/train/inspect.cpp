#include "thinwire/train/inspect.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/safetensors.h"
#include "thinwire/optim/flat.h"
#include "thinwire/train/json_fields.h"
#include "thinwire/train/stages.h"

namespace thinwire::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kModel = "model.safetensors";

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string manifest_of(const fs::path& folder) { return (folder / "manifest.json").string(); }

std::vector<fs::path> inside(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code ignored;
  for (fs::directory_iterator it(folder, ignored), end; !ignored && it != end; it.increment(ignored))
    paths.push_back(it->path());
  std::ranges::sort(paths);
  return paths;
}

// Checkpoints by their names alone, ascending: a damaged one is to be found, too.
std::vector<std::pair<int64_t, fs::path>> checkpoints_of(const fs::path& run) {
  std::vector<std::pair<int64_t, fs::path>> found;
  for (const fs::path& path : inside(run / "checkpoints")) {
    const std::string name = path.filename().string();
    int64_t step = -1;
    if (name.starts_with("step-")) std::from_chars(name.data() + 5, name.data() + name.size(), step);
    if (step >= 0) found.emplace_back(step, path);
  }
  std::ranges::sort(found);
  return found;
}

// Without weights: a recipe that came with a run may ask for more than this machine has.
std::unique_ptr<models::Model> shapes_of(const Recipe& recipe) {
  return models::make_model(recipe.model, data::kVocabulary, {});
}

// A model to be filled with weights that are there already; what the recipe says of its size must fit them.
std::unique_ptr<models::Model> model_of(const Recipe& recipe, const fs::path& from, int64_t bytes) {
  const int64_t numel = shapes_of(recipe)->numel();
  TORCH_CHECK(numel <= bytes / int64_t{sizeof(float)}, from.string(), ": ", bytes, " bytes cannot hold the ", numel,
              " weights of the recipe's model");
  return models::make_model(recipe.model, data::kVocabulary, static_cast<uint64_t>(recipe.train.seed));
}

int64_t bytes_of(const fs::path& file) {
  std::error_code error;
  const auto bytes = fs::file_size(file, error);
  return error ? 0 : static_cast<int64_t>(bytes);
}

at::Tensor weights_of_file(const std::map<std::string, at::Tensor>& tensors, const fs::path& path,
                           const models::Model& model, const optim::Layout& layout) {
  at::Tensor x = at::zeros({layout.numel}, at::kFloat);
  for (auto& [name, part] : by_name(model, x)) {
    const auto it = tensors.find(name);
    TORCH_CHECK(it != tensors.end(), path.string(), ": has no tensor ", name);
    TORCH_CHECK(it->second.sizes() == part.sizes() && it->second.scalar_type() == at::kFloat, path.string(), ": ", name,
                " should be float ", part.sizes(), ", is ", it->second.scalar_type(), " ", it->second.sizes());
    at::Tensor(part).copy_(it->second);
  }
  return x;
}

// What replicas agree on: the entry that the manifest names. Checkpoints of version 0.1.0 name none; there it is a
// strategy's z, or the weights themselves.
at::Tensor weights_of_checkpoint(const fs::path& folder, const Recipe& recipe, const models::Model& model) {
  const std::string told = text_of(checkpoint::read_manifest(folder).facts, "agreed", manifest_of(folder));
  const auto agreed = [&](const State& state, const std::string& prefix) {
    const std::string by_kind = state.contains(prefix + "strategy.z") ? "strategy.z" : "x";
    const std::string name = prefix + (told.empty() ? by_kind : told);
    const auto found = state.find(name);
    TORCH_CHECK(found != state.end(), "has no ", name);
    return found->second.value;
  };
  const State first = checkpoint::load(folder, 0).state;
  try {
    const at::Tensor tied = first.contains("tie.x") ? agreed(first, "tie.") : at::Tensor();
    return gather_stages(recipe, model, tied, [&](int stage, int64_t) {
      return agreed(stage == 0 ? first : checkpoint::load(folder, 0, stage).state, "");
    });
  } catch (const c10::Error& error) {
    TORCH_CHECK(false, folder.string(), ": ", one_line(error));
  }
}

Recipe recipe_of(const json& facts, const fs::path& folder) {
  const std::string text = text_of(facts, "recipe", manifest_of(folder));
  TORCH_CHECK(!text.empty(), manifest_of(folder), ": has no recipe");
  return make_recipe(parse_recipe(text, manifest_of(folder)));
}

Recipe recipe_of_run(const fs::path& run) {
  const fs::path path = run / "recipe.toml";
  std::error_code ignored;
  if (fs::is_symlink(path, ignored)) throw BadInput("{}: a link, and links are not followed here", path.string());
  return make_recipe(read_recipe(path));
}

Trained fill(Recipe recipe, fs::path from, int64_t bytes, bool finished,
             const std::function<at::Tensor(const models::Model&, const optim::Layout&)>& read) {
  Trained trained;
  trained.recipe = std::move(recipe);
  trained.from = std::move(from);
  trained.finished = finished;
  trained.model = model_of(trained.recipe, trained.from, bytes);
  const optim::Layout layout = optim::make_layout(models::parameters_by_unit(*trained.model));
  const at::Tensor x = read(*trained.model, layout);
  const auto parts = by_name(*trained.model, x);
  for (auto& unit : trained.model->units)
    for (auto& parameter : unit->parameters) parameter.tensor.set_data(parts.at(parameter.name));
  trained.weights_hash = optim::weights_hash(layout, x);
  return trained;
}

// What a run has written at a place of its own; empty if there is nothing.
std::string read_if_there(const fs::path& run, const char* name) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(run / name, ignored)) ? read_file_in(run, name) : "";
}

// The hash that the run told at its end; empty if it did not.
std::string told_hash(const fs::path& run) {
  const json result = json::parse(read_if_there(run, "result.json"), nullptr, /*allow_exceptions=*/false);
  const auto it = result.find("weights_hash");
  return it != result.end() && it->is_string() ? it->get<std::string>() : "";
}

Trained of_file(const fs::path& run) {
  const fs::path path = run / kModel;
  const std::string bytes = read_file_in(run, kModel);
  const auto tensors = checkpoint::parse_safetensors(bytes, path.string()).tensors;
  Trained trained = fill(recipe_of_run(run), path, std::ssize(bytes), true,
                         [&](const models::Model& model, const optim::Layout& layout) {
                           return weights_of_file(tensors, path, model, layout);
                         });
  const std::string told = told_hash(run);
  TORCH_CHECK(told.empty() || told == trained.weights_hash, path.string(), ": damaged, the run ended on weights ", told,
              ", these are ", trained.weights_hash);
  return trained;
}

// "float32 [1024], all replicas alike"; a single number as it is, replica 0's where each has its own.
std::string words_for(const Entry& entry) {
  const at::Tensor& x = entry.value;
  const char* who = entry.scope == Scope::all_equal ? "all replicas alike" : "each replica its own";
  if (x.dim() == 0) return fmt::format("{:g}, {}", x.item<double>(), who);
  const std::string type = fmt::format("{}{}", x.is_floating_point() ? "float" : "int", 8 * x.element_size());
  return fmt::format("{} [{}], {}", type, fmt::join(x.sizes(), ", "), who);
}

// The last losses and how far it got; lines that a killed run left half written do not count.
void read_metrics(RunFacts& facts) {
  std::istringstream lines(read_if_there(facts.dir, "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) continue;
    auto number = [&](const char* key, auto& into) {
      if (auto it = event.find(key); it != event.end() && it->is_number()) into = it->get<double>();
    };
    number("loss", facts.loss);
    number("val_loss", facts.val_loss);
    number("seconds", facts.seconds);
    double step = NAN;
    number("step", step);
    if (step >= 0 && step <= static_cast<double>(kMostSteps)) facts.steps = static_cast<int64_t>(step);
  }
}

}  // namespace

Recipe recipe_of_checkpoint(const fs::path& folder) {
  return recipe_of(checkpoint::read_manifest(folder).facts, folder);
}

int64_t step_of_checkpoint(const fs::path& folder) {
  const int64_t step = whole_of(checkpoint::read_manifest(folder).facts, "step", manifest_of(folder));
  if (step < 0) throw BadInput("{}: step must be at least 0, got {}", manifest_of(folder), step);
  return step;
}

bool is_checkpoint(const fs::path& path) { return path_exists(path / "manifest.json"); }

void check_is_run_or_checkpoint(const fs::path& path) {
  if (!path_exists(path)) throw BadInput("there is no {}", path.string());
  if (path_exists(path / "recipe.toml") || is_checkpoint(path)) return;
  std::vector<std::string> runs;
  for (const fs::path& below : inside(path))
    if (path_exists(below / "recipe.toml")) runs.push_back(below.string());
  if (runs.empty()) throw BadInput("{} is neither a run (recipe.toml) nor a checkpoint (manifest.json)", path.string());
  throw BadInput("{} holds several runs: name one of {}", path.string(), fmt::join(runs, ", "));
}

Trained load_agreed(const fs::path& folder) {
  const Recipe recipe = recipe_of_checkpoint(folder);
  int64_t bytes = 0;
  for (const fs::path& path : inside(folder)) bytes += bytes_of(path);
  return fill(recipe, folder, bytes, false, [&](const models::Model& model, const optim::Layout&) {
    return weights_of_checkpoint(folder, recipe, model);
  });
}

Trained load_trained(const fs::path& path) {
  check_is_run_or_checkpoint(path);
  if (!is_checkpoint(path) && path_exists(path / kModel)) return of_file(path);
  fs::path folder = path;
  if (!is_checkpoint(path)) {
    const int64_t step = checkpoint::newest(path);
    if (step < 0) throw BadInput("{} has no weights yet: neither {} nor a checkpoint", path.string(), kModel);
    folder = checkpoint::folder_of(path, step);
  }
  checkpoint::verify(folder);
  return load_agreed(folder);
}

CheckpointFacts inspect_checkpoint(const fs::path& folder) {
  CheckpointFacts facts;
  facts.folder = folder;
  std::error_code ignored;
  for (const fs::path& path : inside(folder)) {
    ++facts.files;
    if (fs::is_regular_file(path, ignored)) facts.bytes += static_cast<int64_t>(fs::file_size(path, ignored));
  }
  const auto written = fs::last_write_time(folder / "manifest.json", ignored);
  if (!ignored) facts.age_s = std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
  try {
    checkpoint::verify(folder);
    const checkpoint::Loaded loaded = checkpoint::load(folder, 0);
    facts.recipe = recipe_of(loaded.facts, folder);
    facts.step = step_of_checkpoint(folder);
    const int64_t stages = checkpoint::read_manifest(folder).stages;
    for (int stage = 0; stage < stages; ++stage)
      for (const auto& [name, entry] : stage == 0 ? loaded.state : checkpoint::load(folder, 0, stage).state)
        facts.entries[stages == 1 ? name : fmt::format("stage {}: {}", stage, name)] = words_for(entry);
  } catch (const std::exception& error) {
    facts.damage = one_line(error);
  }
  return facts;
}

RunFacts inspect_run(const fs::path& dir) {
  RunFacts facts;
  facts.dir = dir;
  facts.recipe = recipe_of_run(dir);
  facts.parameters = shapes_of(facts.recipe)->numel();
  facts.planned_steps = facts.recipe.planned_steps();
  read_metrics(facts);
  facts.finished = path_exists(dir / kModel);
  if (facts.finished) {
    try {
      facts.weights_hash = of_file(dir).weights_hash;
    } catch (const std::exception& error) {
      facts.damage = one_line(error);
    }
  }
  for (const auto& [step, folder] : checkpoints_of(dir)) {
    CheckpointFacts about = inspect_checkpoint(folder);
    if (!about.damage.empty()) about = inspect_checkpoint(folder);  // a run that goes on may just have replaced it
    if (!about.damage.empty() && !path_exists(folder)) continue;    // ... or removed it
    about.step = step;
    facts.checkpoints.push_back(std::move(about));
  }
  return facts;
}

}  // namespace thinwire::train
