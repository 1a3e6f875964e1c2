#include "cli/arguments.h"

#include <fmt/chrono.h>

#include "cli/shell.h"
#include "cli/show.h"
#include "thinwire/base/atomic_file.h"

namespace thinwire::cli {

void Arguments::add_to(CLI::App& verb) {
  verb.add_option("recipe", recipe, "recipe in TOML")->required()->type_name("RECIPE.toml");
  verb.add_option("keys", keys, "override keys of the recipe; `thinwire keys` lists them all")
      ->type_name("section.key=value");
  verb.add_option("--dir", dir, "where the run is kept (default: runs/NAME-DATE-TIME)")->type_name("DIR");
  verb.add_flag("--json", json, "print one JSON object a line, nothing else");
  verb.add_flag("--quiet", quiet, "print only what comes out at the end");
}

train::RecipeText Arguments::text() const {
  auto text = train::read_recipe(recipe);
  train::set_keys(text, keys);
  return text;
}

std::string Arguments::command(const std::string& verb) const {
  std::string line = fmt::format("thinwire {} {}", verb, shell_word(recipe));
  for (const auto& key : keys) line += " " + shell_word(key);
  return line;
}

std::unique_ptr<train::Observer> Arguments::observer(const std::string& strategy, bool schedule,
                                                     const std::string& compared_schedule) const {
  if (quiet) return std::make_unique<train::Observer>();
  return json ? json_lines(strategy, compared_schedule) : console(schedule);
}

std::filesystem::path Arguments::directory(const std::string& name, bool claim) const {
  if (!dir.empty()) return dir;
  const std::time_t now = std::time(nullptr);
  const auto stem = fmt::format("{}-{:%Y%m%d-%H%M%S}", name, *std::localtime(&now));
  const std::filesystem::path runs = "runs";
  if (claim) create_folders(runs);
  for (int again = 1;; ++again) {  // others may start within the same second
    const auto path = runs / (again == 1 ? stem : fmt::format("{}-{}", stem, again));
    if (!claim || std::filesystem::create_directory(path)) return path;
  }
}

}  // namespace thinwire::cli
