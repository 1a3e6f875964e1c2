// thinwire compare: the same run under several strategies, one after the other, and a table.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cli/arguments.h"
#include "cli/shell.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "thinwire/base/append_file.h"
#include "thinwire/base/did_you_mean.h"
#include "thinwire/base/errors.h"
#include "thinwire/report/report.h"
#include "thinwire/train/metrics.h"

namespace thinwire::cli {
namespace {

std::vector<std::string> split_names(const std::string& list) {
  std::vector<std::string> names;
  const auto known = dp::strategy_names();
  std::stringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');) {
    if (std::ranges::find(known, name) == known.end())
      throw BadInput("there is no strategy '{}'{}", name, did_you_mean(name, known));
    if (std::ranges::find(names, name) != names.end()) throw BadInput("strategy '{}' is named twice", name);
    names.push_back(name);
  }
  if (names.empty()) throw BadInput("--strategies wants names with commas between, like all_reduce,co2");
  return names;
}

void compare_verb(const Arguments& arguments, const std::string& strategies) {
  const auto names = split_names(strategies);
  const auto text = arguments.text();
  std::vector<train::Recipe> recipes;  // all are checked before the first one runs
  for (const auto& name : names) recipes.push_back(train::make_recipe_for(text, name, names));
  const auto dir = arguments.directory("compare-" + text.name);
  if (std::filesystem::exists(dir) && !(std::filesystem::is_directory(dir) && std::filesystem::is_empty(dir)))
    throw BadInput("{} exists and is not empty: choose another --dir", dir.string());

  const std::string command = arguments.command("compare") + " --strategies " + shell_word(strategies);
  std::vector<train::Result> results;
  for (size_t i = 0; i < names.size() && !stop_requested(); ++i) {
    auto observer = arguments.observer(names[i]);
    const auto result =
        train::run(recipes[i], {.dir = dir / names[i], .stop = &stop_requested(), .command = command}, *observer);
    observer.reset();
    if (!result.finished) {
      if (arguments.json) fmt::print("{}\n", train::to_json(result, "stopped").dump());
      break;
    }
    results.push_back(result);
    const auto line = train::to_json(result, "result").dump();
    if (arguments.json) fmt::print("{}\n", line), std::fflush(stdout);
    AppendFile(dir / "results.jsonl").write_line(line);
  }
  if (!results.empty()) report::write(dir / "report.html", {dir});
  if (arguments.json) return;
  if (results.size() < names.size())
    fmt::print("stopped: {} of {} strategies were finished\n", results.size(), names.size());
  if (results.empty()) return;
  fmt::print("\n{}\nkept in {}; look at {}\n", comparison_table(results, wants_colour()), dir.string(),
             (dir / "report.html").string());
}

}  // namespace

void add_compare(CLI::App& app) {
  auto* verb = app.add_subcommand("compare", "the same run under several strategies, and a table of what each reached");
  auto arguments = std::make_shared<Arguments>();
  auto strategies = std::make_shared<std::string>("all_reduce,local_sgd,diloco,co2");
  arguments->add_to(*verb);
  verb->add_option("--strategies", *strategies, "names with commas between")
      ->capture_default_str()
      ->type_name("A,B,..");
  verb->footer(
      "The runs come one after the other: same data, same start, same link. The table shows the held-out\n"
      "loss each ended on, its gap to all_reduce, the time, and what went over the wire.\n"
      "\n"
      "Equal time: train.seconds=20. Equal work: train.steps=200.\n"
      "A key of [strategy] goes to the strategies that have it. [compare.NAME] in the recipe overrides any\n"
      "key for one strategy.\n"
      "\n"
      "Examples:\n"
      "  thinwire compare recipes/demo.toml --strategies all_reduce,slowmo,co2\n"
      "  thinwire compare recipes/demo.toml link.replicas=10mbit/80ms train.seconds=60");
  verb->callback([=] { compare_verb(*arguments, *strategies); });
}

}  // namespace thinwire::cli
