// thinwire compare: the same run under several strategies, or by several schedules of a pipeline, one after the other,
// and a table.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "cli/arguments.h"
#include "cli/shell.h"
#include "cli/show.h"
#include "cli/signals.h"
#include "cli/verbs.h"
#include "thinwire/base/append_file.h"
#include "thinwire/base/did_you_mean.h"
#include "thinwire/base/errors.h"
#include "thinwire/report/report.h"
#include "thinwire/train/metrics.h"
#include "thinwire/train/resolve_auto.h"
#include "thinwire/train/run_record.h"
#include "thinwire/train/stages.h"

namespace thinwire::cli {
namespace fs = std::filesystem;
namespace {

using train::Compared;

const char* word_for(Compared what) { return what == Compared::strategies ? "strategy" : "schedule"; }

std::vector<std::string> split_names(const std::string& list, Compared what) {
  std::vector<std::string> names;
  const auto known = train::names_of(what);
  std::stringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) {
    if (std::ranges::find(known, name) == known.end())
      throw BadInput("there is no {} '{}'{}", word_for(what), name, did_you_mean(name, known));
    if (std::ranges::find(names, name) != names.end()) throw BadInput("{} '{}' is named twice", word_for(what), name);
    names.push_back(name);
  }
  if (names.empty() && what == Compared::strategies)
    throw BadInput("--strategies wants names with commas between, like all_reduce,co2");
  if (names.empty()) throw BadInput("--schedules wants names with commas between, like gpipe,steady");
  return names;
}

// What gaps are to: all_reduce, or of schedules the first that is synchronous, or the first.
std::string base_of(const std::vector<std::string>& names, Compared what) {
  if (what == Compared::strategies) return "all_reduce";
  const auto on_time = pipeline::synchronous_names();
  const auto it =
      std::ranges::find_if(names, [&](const auto& name) { return std::ranges::find(on_time, name) != on_time.end(); });
  return it == names.end() ? names.front() : *it;
}

// What a strategy ended on before this comparison was stopped. BadInput if that was with another recipe.
std::optional<train::Result> finished_before(const fs::path& run, const train::Recipe& recipe) {
  if (!fs::exists(run / "result.json")) return {};
  const auto before = train::make_recipe(train::read_recipe(run / "recipe.toml"));
  train::Recipe asked = recipe;
  train::keep_resolved(asked, before);  // "auto" became a number there
  if (auto difference = train::first_difference(before, asked, train::Keys::that_decide_weights))
    throw BadInput("{} was made with another recipe: {}", run.string(), *difference);
  auto result = train::read_runs({run}).front().result;
  result.finished = true;
  return result;
}

void compare_verb(const Arguments& arguments, Compared what, const std::string& list, bool resume, Ranks& ranks) {
  if (resume && arguments.dir.empty())
    throw BadInput("--resume needs --dir, the directory of the comparison to go on with");
  const auto names = split_names(list, what);
  train::RecipeText text;
  std::vector<train::Recipe> recipes;  // all are checked before the first one runs
  ranks.together([&] {
    text = arguments.text();
    for (const auto& name : names) recipes.push_back(train::make_recipe_for(text, what, name, names));
    for (const auto& recipe : recipes) {
      if (what == Compared::schedules && recipe.workers.stages == 1)
        throw BadInput("--schedules compares pipelines: workers.stages must be at least 2, got 1");
      train::check_lateness(recipe);
      if (ranks.is_rank0()) ranks.check_number(recipe);
    }
  });
  const auto dir = ranks.directory(arguments.directory("compare-" + text.name, /*claim=*/ranks.is_rank0()));
  const RemovedIfEmpty refused(arguments.dir.empty() && ranks.is_rank0() ? dir : "");
  std::vector<train::Result> results;
  for (const auto& recipe : recipes) results.push_back({.strategy = recipe.strategy.name});
  ranks.together([&] {
    if (!ranks.is_rank0() || !fs::exists(dir)) return;
    if (!fs::is_directory(dir) || (!fs::is_empty(dir) && !resume))
      throw BadInput("{} exists and is not empty: choose another --dir, or go on with it by --resume", dir.string());
    for (size_t i = 0; i < names.size(); ++i)
      if (auto before = finished_before(dir / names[i], recipes[i])) results[i] = *before;
  });

  const std::string command = arguments.command("compare") +
                              (what == Compared::strategies ? " --strategies " : " --schedules ") + shell_word(list);
  const Signals signals(
      ranks.is_rank0() ? "thinwire: stopping after this step; a second signal ends it at once\n" : nullptr,
      ranks.joined());
  std::vector<std::string> failures;
  bool stopped = false;
  for (size_t i = 0; i < names.size() && !ranks.rank0_says(Signals::stop()); ++i) {
    if (ranks.rank0_says(results[i].finished)) continue;
    const std::string schedule = what == Compared::schedules ? names[i] : "";
    if (!schedule.empty() && ranks.is_rank0() && !arguments.json && !arguments.quiet) fmt::print("{}\n", schedule);
    auto observer = ranks.observer(arguments.observer(recipes[i].strategy.name, false, schedule));
    const auto print_json = [&](nlohmann::ordered_json line) {
      if (!schedule.empty()) line["schedule"] = schedule;
      fmt::print("{}\n", line.dump());
    };
    train::Result result;
    try {
      result = ranks.run(recipes[i],
                         {.dir = dir / names[i],
                          .resume = resume,
                          .stop = &Signals::stop(),
                          .save = &Signals::save(),
                          .command = command},
                         *observer);
    } catch (const BadInput&) {
      throw;
    } catch (const std::exception& error) {
      if (ranks.joined()) throw;  // the other processes are gone
      observer.reset();
      results[i].val_loss = std::numeric_limits<double>::quiet_NaN();
      failures.push_back(fmt::format("{}: {}", names[i], one_line(error)));
      if (arguments.json)
        print_json({{"event", "failed"}, {"strategy", recipes[i].strategy.name}, {"error", one_line(error)}});
      else
        fmt::print("{} failed: {}\n", names[i], one_line(error));
      continue;
    }
    observer.reset();
    if (!result.finished) {
      if (arguments.json && ranks.is_rank0()) print_json(train::to_json(result, "stopped"));
      stopped = true;
      break;
    }
    if (!ranks.is_rank0()) continue;
    results[i] = result;
    auto line = train::to_json(result, "result");
    if (!schedule.empty()) line["schedule"] = schedule;
    if (arguments.json) fmt::print("{}\n", line.dump()), std::fflush(stdout);
    AppendFile(dir / "results.jsonl").write_line(line.dump());
  }
  if (!ranks.is_rank0()) return;
  const std::string plural = what == Compared::strategies ? "strategies" : "schedules";
  const auto finished = std::ranges::count_if(results, &train::Result::finished);
  if (finished > 0) report::write(dir / "report.html", {dir});
  if (!arguments.json) {
    const std::string go_on = fmt::format("{} --dir {} --resume", command, shell_word(dir.string()));
    if (stopped || Signals::stop())
      fmt::print("stopped: {} of {} {} were finished; go on with: {}\n", finished, names.size(), plural, go_on);
    if (finished > 0)
      fmt::print("\n{}\nkept in {}; look at {}\n",
                 comparison_table(word_for(what), base_of(names, what), names, results, wants_colour()), dir.string(),
                 (dir / "report.html").string());
  }
  if (failures.empty()) return;
  std::fflush(stdout);
  throw std::runtime_error(
      fmt::format("{} of {} {} failed; {}", failures.size(), names.size(), plural, failures.front()));
}

}  // namespace

void add_compare(CLI::App& app, Ranks& ranks) {
  auto* verb = app.add_subcommand("compare", "the same run under several strategies, and a table of what each reached");
  auto arguments = std::make_shared<Arguments>();
  auto resume = std::make_shared<bool>(false);
  auto strategies = std::make_shared<std::string>("all_reduce,local_sgd,diloco,co2");
  arguments->add_to(*verb);
  verb->add_option("--strategies", *strategies, "names with commas between")
      ->capture_default_str()
      ->type_name("A,B,..");
  auto schedules = std::make_shared<std::string>();
  verb->add_option("--schedules", *schedules,
                   "schedules of a pipeline instead: gpipe, 1f1b, zero_bubble_h1, async_1f1b, steady")
      ->type_name("A,B,..");
  verb->add_flag("--resume", *resume, "go on with the comparison in --dir: what is finished there is not run again");
  verb->footer(
      "The runs come one after the other: same data, same start, same link. The table shows the held-out\n"
      "loss each ended on, its gap to all_reduce, the time, and what went over the wire.\n"
      "\n"
      "Equal time: train.seconds=20. Equal work: train.steps=200.\n"
      "A key of [strategy] goes to the strategies that have it. [compare.NAME] in the recipe overrides any\n"
      "key for one strategy, or for one of --schedules: those compare what a pipeline's order of work and its\n"
      "preset cost, with the keys of [pipeline] that each has; gaps are to the first that is synchronous.\n"
      "A strategy that fails (it diverges, say) is named in the table and the others go on; the exit code is\n"
      "then 1. What was stopped is gone on with by the same command with --dir and --resume.\n"
      "\n"
      "Examples:\n"
      "  thinwire compare recipes/demo.toml --strategies all_reduce,slowmo,co2\n"
      "  thinwire compare recipes/demo.toml link.replicas=10mbit/80ms train.seconds=60\n"
      "  thinwire compare recipes/demo-pipeline.toml --schedules gpipe,1f1b,async_1f1b,steady");
  verb->callback([=, &ranks] {
    if (!schedules->empty() && verb->count("--strategies") > 0)
      throw BadInput("--strategies and --schedules are two comparisons: give one of them");
    if (schedules->empty() && verb->count("--schedules") == 0)
      compare_verb(*arguments, Compared::strategies, *strategies, *resume, ranks);
    else
      compare_verb(*arguments, Compared::schedules, *schedules, *resume, ranks);
  });
}

}  // namespace thinwire::cli
