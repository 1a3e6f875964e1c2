// thinwire info: what a run directory or a checkpoint holds, and whether it is whole.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "cli/shell.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "thinwire/base/printable.h"
#include "thinwire/train/inspect.h"

namespace thinwire::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using train::CheckpointFacts;
using train::RunFacts;

std::string age_text(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s ago", std::max(0.0, seconds));
  if (seconds < 2 * 3600) return fmt::format("{:.0f} min ago", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{:.0f} h ago", seconds / 3600);
  return fmt::format("{:.0f} days ago", seconds / 86400);
}

std::string resume_command(const fs::path& dir) {
  return fmt::format("thinwire train {} --dir {} --resume", shell_word((dir / "recipe.toml").string()),
                     shell_word(dir.string()));
}

std::string length_text(const train::Recipe& r) {
  return r.planned_steps() > 0 ? fmt::format("{} steps", r.planned_steps()) : fmt::format("{} s", r.train.seconds);
}

std::string recipe_line(const train::Recipe& r) {
  const auto& m = r.model;
  return fmt::format("{} layers of width {}, context {}; {} lr {}, batch {} a replica, {}, seed {}; {}", m.layers,
                     m.width, m.context, r.optim.name, r.optim.lr, r.train.batch, length_text(r), r.train.seed,
                     r.data.source == "text" ? r.data.path : r.data.source + " text");
}

std::string standing(const RunFacts& run) {
  if (run.finished) return "finished";
  return run.checkpoints.empty() ? "not finished, no checkpoint yet" : "not finished, resumable";
}

// The checkpoint a resumed run starts from, 0 if it starts anew.
int64_t resumes_after(const RunFacts& run) { return run.checkpoints.empty() ? 0 : run.checkpoints.back().step; }

Json to_json(const CheckpointFacts& c) {
  Json json = {
      {"folder", c.folder.string()}, {"step", c.step}, {"files", c.files}, {"bytes", c.bytes}, {"age_s", c.age_s},
      {"whole", c.damage.empty()}};
  if (!c.damage.empty()) json["damage"] = c.damage;
  return json;
}

Json to_json(const RunFacts& run) {
  Json json = {{"event", "run"},
               {"dir", run.dir.string()},
               {"strategy", run.recipe.strategy.name},
               {"model", run.recipe.model.name},
               {"parameters", run.parameters},
               {"replicas", run.recipe.workers.replicas},
               {"link", to_text(run.recipe.link.replicas)}};
  if (run.recipe.workers.stages > 1) {
    json["stages"] = run.recipe.workers.stages;
    json["stage_link"] = to_text(run.recipe.link.stages);
  }
  json["steps"] = run.steps;
  json["planned_steps"] = run.planned_steps;
  json["seconds"] = run.seconds;
  json["finished"] = run.finished;
  if (run.loss) json["loss"] = *run.loss;
  if (run.val_loss) json["val_loss"] = *run.val_loss;
  if (!run.weights_hash.empty()) json["weights_hash"] = run.weights_hash;
  if (!run.damage.empty()) json["damage"] = run.damage;
  if (!run.finished) {
    json["resumes_after"] = resumes_after(run);
    json["resume"] = resume_command(run.dir);
  }
  json["checkpoints"] = Json::array();
  for (const auto& c : run.checkpoints) json["checkpoints"].push_back(to_json(c));
  return json;
}

// File names need not be UTF-8.
std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void print(const RunFacts& run) {
  const auto row = [](const char* what, const std::string& text) { fmt::print("  {:<12}{}\n", what, printable(text)); };
  fmt::print("{}\n", headline(run.recipe, run.parameters));
  row("recipe", recipe_line(run.recipe));
  const std::string of = run.planned_steps > 0 ? fmt::format(" of {}", run.planned_steps) : "";
  row("stands", fmt::format("{}: {}{} steps in {:.1f} s", standing(run), run.steps, of, run.seconds));
  if (run.loss)
    row("loss", fmt::format("{:.4f} in training", *run.loss) +
                    (run.val_loss ? fmt::format(", {:.4f} held out", *run.val_loss) : ""));
  if (!run.finished) row("go on with", resume_command(run.dir));
  if (!run.finished && resumes_after(run) < run.steps)
    row("", fmt::format("(the steps after {} are done again)", resumes_after(run)));
  if (run.finished)
    row("weights", run.damage.empty()
                       ? fmt::format("{} in {}", run.weights_hash, (run.dir / "model.safetensors").string())
                       : "DAMAGED " + run.damage);
  if (run.checkpoints.empty()) return;
  row("checkpoints", "read whole, and every hash checked:");
  for (const auto& c : run.checkpoints)
    fmt::print("    {:<12}{:>10} in {} files  {:>12}  {}\n", printable(c.folder.filename().string()),
               megabytes_text(static_cast<double>(c.bytes)), c.files, age_text(c.age_s),
               c.damage.empty() ? "whole" : "DAMAGED " + printable(c.damage));
}

void info_of_checkpoint(const fs::path& folder, bool json) {
  const CheckpointFacts c = train::inspect_checkpoint(folder);
  if (json) {
    Json line = to_json(c);
    line["event"] = "checkpoint";
    line["entries"] = c.entries;
    fmt::print("{}\n", dumped(line));
  } else if (c.damage.empty()) {
    fmt::print("checkpoint after step {}: {}, {} files, {}; read whole, and every hash checked\n", c.step,
               megabytes_text(static_cast<double>(c.bytes)), c.files, age_text(c.age_s));
    fmt::print("  {:<12}{}; {}\n", "recipe", c.recipe->strategy.name, printable(recipe_line(*c.recipe)));
    for (const auto& [name, what] : c.entries) fmt::print("    {:<24}{}\n", printable(name), printable(what));
  }
  std::fflush(stdout);
  if (!c.damage.empty()) throw std::runtime_error(c.damage);
}

void info_of_run(const fs::path& dir, bool json) {
  const RunFacts run = train::inspect_run(dir);
  if (json)
    fmt::print("{}\n", dumped(to_json(run)));
  else
    print(run);
  std::fflush(stdout);
  if (!run.damage.empty()) throw std::runtime_error(run.damage);
  for (const auto& c : run.checkpoints)
    if (!c.damage.empty()) throw std::runtime_error(c.damage);
}

}  // namespace

void add_info(CLI::App& app) {
  auto* verb = app.add_subcommand("info", "what a run or a checkpoint holds, where it stands, whether it is whole");
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  verb->add_option("run", *path, "a run directory, or a checkpoint in it")->required()->type_name("RUN|CHECKPOINT");
  verb->add_flag("--json", *json, "print one JSON object");
  verb->footer(
      "Of a run: its recipe in a line, how far it got, the last losses, the command that goes on with it,\n"
      "its checkpoints, and the hash of the weights it ended on. Of a checkpoint: what is in it.\n"
      "\n"
      "Every file is read and compared with the hash in its manifest, so this takes as long as reading\n"
      "the disk does. A damaged file is named, and the exit code is then 1.\n"
      "\n"
      "Examples:\n"
      "  thinwire info runs/mine\n"
      "  thinwire info runs/mine/checkpoints/step-200\n"
      "  thinwire info runs/mine --json");
  verb->callback([=] {
    train::check_is_run_or_checkpoint(*path);
    fs::path trimmed = fs::path(*path).lexically_normal();
    if (!trimmed.has_filename()) trimmed = trimmed.parent_path();  // "runs/mine/"
    if (train::is_checkpoint(trimmed))
      info_of_checkpoint(trimmed, *json);
    else
      info_of_run(trimmed, *json);
  });
}

}  // namespace thinwire::cli
