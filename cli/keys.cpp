// thinwire keys: every key of a recipe, its value and its meaning. What it prints is a recipe.
#include <fmt/format.h>

#include "cli/verbs.h"
#include "thinwire/train/recipe.h"

namespace thinwire::cli {

void add_keys(CLI::App& app) {
  auto* verb = app.add_subcommand("keys", "print every key of a recipe with its value and meaning");
  auto words = std::make_shared<std::vector<std::string>>();
  verb->add_option("words", *words, "a recipe, and keys that override it; without a recipe: the defaults")
      ->type_name("RECIPE.toml | section.key=value");
  verb->footer(
      "What it prints is a recipe: save it, and change what you like. Behind each key is its meaning and what\n"
      "it may be. Which keys there are can depend on others: every strategy has its own.\n"
      "\n"
      "Examples:\n"
      "  thinwire keys\n"
      "  thinwire keys strategy.name=co2\n"
      "  thinwire keys recipes/demo.toml > mine.toml");
  verb->callback([=] {
    train::RecipeText text;
    auto keys = *words;
    if (!keys.empty() && keys.front().find('=') == std::string::npos) {
      text = train::read_recipe(keys.front());
      keys.erase(keys.begin());
    }
    train::set_keys(text, keys);
    fmt::print("{}", to_toml(train::make_recipe(text)));
  });
}

}  // namespace thinwire::cli
