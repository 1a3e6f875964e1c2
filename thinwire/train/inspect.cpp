#include "thinwire/train/inspect.h"

#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/safetensors.h"
#include "thinwire/optim/flat.h"
#include "thinwire/train/stages.h"

namespace thinwire::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

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

std::unique_ptr<models::Model> model_of(const Recipe& recipe) {
  return models::make_model(recipe.model, data::kVocabulary, static_cast<uint64_t>(recipe.train.seed));
}

at::Tensor weights_of_file(const fs::path& path, const models::Model& model, const optim::Layout& layout) {
  const auto tensors = checkpoint::read_safetensors(path).tensors;
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
  const json facts = checkpoint::read_manifest(folder).facts;
  const auto agreed = [&](const State& state, const std::string& prefix) {
    const std::string by_kind = state.contains(prefix + "strategy.z") ? "strategy.z" : "x";
    const std::string name = prefix + facts.value("agreed", by_kind);
    const auto found = state.find(name);
    TORCH_CHECK(found != state.end(), folder.string(), ": has no ", name);
    const at::Tensor& weights = found->second.value;
    TORCH_CHECK(weights.dim() == 1 && weights.scalar_type() == at::kFloat, folder.string(),
                ": weights should be a row of floats, are ", weights.scalar_type(), " ", weights.sizes());
    return weights;
  };
  const State first = checkpoint::load(folder, 0).state;
  const at::Tensor tied = first.contains("tie.x") ? agreed(first, "tie.") : at::Tensor();
  return gather_stages(recipe, model, tied, [&](int stage, int64_t numel) {
    at::Tensor weights = agreed(stage == 0 ? first : checkpoint::load(folder, 0, stage).state, "");
    TORCH_CHECK(weights.numel() == numel, folder.string(), ": should have ", numel, " weights, has ", weights.numel());
    return weights;
  });
}

Recipe recipe_of(const json& facts, const fs::path& folder) {
  const auto it = facts.is_object() ? facts.find("recipe") : facts.end();
  TORCH_CHECK(facts.is_object() && it != facts.end() && it->is_string(), (folder / "manifest.json").string(),
              ": has no recipe");
  return make_recipe(parse_recipe(it->get<std::string>(), (folder / "manifest.json").string()));
}

Trained fill(Recipe recipe, fs::path from, bool finished,
             const std::function<at::Tensor(const models::Model&, const optim::Layout&)>& read) {
  Trained trained;
  trained.recipe = std::move(recipe);
  trained.from = std::move(from);
  trained.finished = finished;
  trained.model = model_of(trained.recipe);
  const optim::Layout layout = optim::make_layout(models::parameters_by_unit(*trained.model));
  const at::Tensor x = read(*trained.model, layout);
  const auto parts = by_name(*trained.model, x);
  for (auto& unit : trained.model->units)
    for (auto& parameter : unit->parameters) parameter.tensor.set_data(parts.at(parameter.name));
  trained.weights_hash = optim::weights_hash(layout, x);
  return trained;
}

Trained of_checkpoint(const fs::path& folder) {
  const Recipe recipe = recipe_of_checkpoint(folder);
  return fill(recipe, folder, false, [&](const models::Model& model, const optim::Layout&) {
    return weights_of_checkpoint(folder, recipe, model);
  });
}

Trained of_file(const fs::path& run) {
  const fs::path path = run / "model.safetensors";
  return fill(
      make_recipe(read_recipe(run / "recipe.toml")), path, true,
      [&](const models::Model& model, const optim::Layout& layout) { return weights_of_file(path, model, layout); });
}

void check_files(const fs::path& folder) {
  // checkpoint::load has checked the manifest itself and what replica 0 needs; this is the rest.
  const json manifest = json::parse(read_file(folder / "manifest.json"));
  for (const auto& [name, about] : manifest["files"].items()) {
    const fs::path path = folder / name;
    const std::string bytes = read_file(path), hash = fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
    TORCH_CHECK(about.value("bytes", uint64_t{0}) == bytes.size(), path.string(), ": wanted ", about["bytes"].dump(),
                " bytes, has ", bytes.size());
    TORCH_CHECK(about.value("xxh3", "") == hash, path.string(), ": damaged, wanted XXH3 ", about.value("xxh3", ""),
                ", has ", hash);
  }
}

// "float32 [1024], all replicas alike"; a single number as it is, replica 0's where each has its own.
std::string words_for(const Entry& entry) {
  const at::Tensor& x = entry.value;
  const char* who = entry.scope == Scope::all_equal ? "all replicas alike" : "each replica its own";
  if (x.dim() == 0) return fmt::format("{:g}, {}", x.item<double>(), who);
  const std::string type = fmt::format("{}{}", x.is_floating_point() ? "float" : "int", 8 * x.element_size());
  return fmt::format("{} [{}], {}", type, fmt::join(x.sizes(), ", "), who);
}

// The hash that the run told at its end; empty if it did not.
std::string told_hash(const fs::path& run) {
  const json result = json::parse(read_file_if_any(run / "result.json"), nullptr, /*allow_exceptions=*/false);
  const auto it = result.is_object() ? result.find("weights_hash") : result.end();
  return result.is_object() && it != result.end() && it->is_string() ? it->get<std::string>() : "";
}

// The last losses and how far it got; lines that a killed run left half written do not count.
void read_metrics(const fs::path& path, RunFacts& facts) {
  std::istringstream lines(read_file_if_any(path));
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) continue;
    auto number = [&](const char* key, auto& into) {
      if (auto it = event.find(key); it != event.end() && it->is_number()) into = it->get<double>();
    };
    number("loss", facts.loss);
    number("val_loss", facts.val_loss);
    number("seconds", facts.seconds);
    double step = static_cast<double>(facts.steps);
    number("step", step);
    facts.steps = static_cast<int64_t>(step);
  }
}

}  // namespace

Recipe recipe_of_checkpoint(const fs::path& folder) {
  return recipe_of(checkpoint::read_manifest(folder).facts, folder);
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

Trained load_trained(const fs::path& path) {
  check_is_run_or_checkpoint(path);
  if (is_checkpoint(path)) return of_checkpoint(path);
  if (path_exists(path / "model.safetensors")) return of_file(path);
  const int64_t step = checkpoint::newest(path);
  if (step < 0) throw BadInput("{} has no weights yet: neither model.safetensors nor a checkpoint", path.string());
  return of_checkpoint(checkpoint::folder_of(path, step));
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
    const checkpoint::Loaded loaded = checkpoint::load(folder, 0);
    check_files(folder);
    facts.recipe = recipe_of(loaded.facts, folder);
    facts.step = loaded.facts.value("step", int64_t{0});
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
  facts.recipe = make_recipe(read_recipe(dir / "recipe.toml"));
  facts.parameters = model_of(facts.recipe)->numel();
  facts.planned_steps = facts.recipe.planned_steps();
  read_metrics(dir / "metrics.jsonl", facts);
  facts.finished = path_exists(dir / "model.safetensors");
  if (facts.finished) {
    try {
      facts.weights_hash = of_file(dir).weights_hash;
      const std::string told = told_hash(dir);
      if (!told.empty() && told != facts.weights_hash)
        facts.damage = fmt::format("{}: damaged, the run ended on weights {}, these are {}",
                                   (dir / "model.safetensors").string(), told, facts.weights_hash);
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
