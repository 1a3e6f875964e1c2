// thinwire completion: scripts that let a shell complete verbs, flags, recipes, keys and strategies.
//
// Everything in them is read off the program itself: verbs and flags from the parser, keys from the lists of fields.
// What an argument or flag wants is told by the name of what it takes (RECIPE.toml, RUN, A,B,.. and so on).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "cli/verbs.h"
#include "thinwire/train/recipe.h"

namespace thinwire::cli {

// completion.bash, .zsh and .fish, which the build embeds, with places (@VERBS@ ..) that are filled in here.
//
// In all of them: `verb` is the verb so far, `wants` what may stand at the cursor: recipe, keys, folder, file, text,
// "words:a b" for one of them, "list:a b" for some with commas between. "recipe keys" means a recipe first and keys
// after it; "recipe? keys" keys at any time.
extern const std::string_view kBashCompletion, kZshCompletion, kFishCompletion;

namespace {

using Words = std::vector<std::string>;

struct Flag {
  std::string name, wants, help;  // wants: as above, or empty for a switch
};
struct Verb {
  std::string name, wants, help;
  std::vector<Flag> flags;
};
struct Key {
  std::string name, help;
  Words values;  // where they are few
};

std::string wants_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  if (type.find("RECIPE") != std::string::npos)
    return type.find("key=value") == std::string::npos ? "recipe" : "recipe? keys";
  if (type.find("key=value") != std::string::npos) return "keys";
  if (type.starts_with("RUN") || type == "DIR") return "folder";
  if (type == "FILE") return "file";
  if (type == "A,B,..") {
    const auto what = option.check_lname("schedules") ? train::Compared::schedules : train::Compared::strategies;
    return fmt::format("list:{}", fmt::join(train::names_of(what), " "));
  }
  if (type.find('|') == std::string::npos) return "text";
  std::string words = type;
  std::ranges::replace(words, '|', ' ');
  return "words:" + words;
}

std::vector<Verb> verbs_of(const CLI::App& app) {
  std::vector<Verb> verbs;
  for (const auto* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    Verb verb{sub->get_name(), "", sub->get_description(), {}};
    for (const auto* option : sub->get_options()) {
      if (option->get_positional())
        verb.wants += (verb.wants.empty() ? "" : " ") + wants_of(*option);
      else
        verb.flags.push_back({"--" + option->get_lnames().front(), wants_of(*option), option->get_description()});
    }
    verbs.push_back(std::move(verb));
  }
  return verbs;
}

// Keys depend on others: those of every strategy and of every source together.
std::vector<Key> all_keys() {
  std::vector<Key> keys;
  auto add = [&](const std::string& section, const auto& options) {
    for (const auto& field : list_fields(options)) {
      Key key{section + "." + field.key, field.help, {}};
      if (std::ranges::find(keys, key.name, &Key::name) != keys.end()) continue;
      std::string allowed = field.allowed;
      if (allowed.starts_with("one of ")) {
        std::erase(allowed, ',');
        std::istringstream list(allowed.substr(7));
        for (std::string word; list >> word;) key.values.push_back(word);
      }
      if (std::holds_alternative<bool>(field.value)) key.values = {"true", "false"};
      keys.push_back(std::move(key));
    }
  };
  train::Recipe recipe;
  train::sections(
      [&](const std::string& section, const auto& options) {
        if (section != "strategy") add(section, options);
        if (section == "data") {
          auto made_up = recipe.data;
          made_up.source = "synthetic";
          add(section, made_up);
        }
        if (section == "strategy")
          for (const auto& name : dp::strategy_names()) add(section, dp::preset(name));
      },
      recipe);
  return keys;
}

// 'text' as sh and zsh read it.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += (c == '\'' || c == '\\' ? "\\" : "") + std::string(1, c);
  return out + "'";
}

template <class List, class F>
std::string joined(const List& list, const char* between, F&& f) {
  Words parts;
  for (const auto& item : list) parts.push_back(f(item));
  return fmt::format("{}", fmt::join(parts, between));
}

std::string names_of(const auto& list) {
  return joined(list, " ", [](const auto& item) { return item.name; });
}

// The parts that bash and zsh share: one case a verb, a flag, a key.
std::string flag_cases(const std::vector<Verb>& verbs) {
  std::string out;
  for (const auto& verb : verbs)
    for (const auto& flag : verb.flags)
      if (!flag.wants.empty())
        out += fmt::format("    '{} {}') wants={} ;;\n", verb.name, flag.name, quoted(flag.wants));
  return out;
}

std::string value_cases(const std::vector<Key>& keys) {
  std::string out;
  for (const auto& key : keys)
    if (!key.values.empty()) out += fmt::format("    {}) values='{}' ;;\n", key.name, fmt::join(key.values, " "));
  return out;
}

std::string bash_verbs(const std::vector<Verb>& verbs) {
  std::string out = fmt::format("    '') flags='--help --version' wants='words:{}' ;;\n", names_of(verbs));
  for (const auto& verb : verbs)
    out += fmt::format("    {}) flags='{}' wants={} ;;\n", verb.name, names_of(verb.flags), quoted(verb.wants));
  return out;
}

std::string zsh_verbs(const std::vector<Verb>& verbs) {
  const auto item = [](const auto& x) { return quoted(x.name + ":" + x.help); };
  std::string out =
      fmt::format("    '') verbs=({})\n        flags=('--help:show help' '--version:show the version') ;;\n",
                  joined(verbs, " ", item));
  for (const auto& verb : verbs)
    out += fmt::format("    {}) wants={}\n        flags=({}) ;;\n", verb.name, quoted(verb.wants),
                       joined(verb.flags, " ", item));
  return out;
}

std::string fish_lines(const std::vector<Verb>& verbs) {
  const std::pair<const char*, const char*> sources[] = {{"file", "(__fish_complete_path)"},
                                                         {"folder", "(__fish_complete_directories)"},
                                                         {"recipe", "(__fish_complete_suffix .toml)"},
                                                         {"keys", "(__thinwire_keys)"}};
  auto candidates = [&](const std::string& wants) {
    if (wants.starts_with("words:")) return wants.substr(6);
    if (wants.starts_with("list:")) return fmt::format("(__fish_append , {})", wants.substr(5));
    std::string all;
    for (auto [kind, source] : sources)
      if (wants.find(kind) != std::string::npos) all += (all.empty() ? "" : " ") + std::string(source);
    return all;
  };
  std::string out;
  for (const auto& verb : verbs) {
    out += fmt::format("complete -c thinwire -n __thinwire_at -a {} -d {}\n", verb.name, fish_quoted(verb.help));
    const std::string at = fmt::format("complete -c thinwire -n '__thinwire_at {}'", verb.name);
    if (const auto list = candidates(verb.wants); !list.empty()) out += fmt::format("{} -a '{}'\n", at, list);
    for (const auto& flag : verb.flags) {
      out += fmt::format("{} -l {} -d {}", at, flag.name.substr(2), fish_quoted(flag.help));
      if (!flag.wants.empty()) out += fmt::format(" -x -a '{}'", candidates(flag.wants));
      out += "\n";
    }
  }
  return out;
}

std::string fish_keys(const std::vector<Key>& keys) {
  std::string out;
  for (const auto& key : keys) {
    const Words values = key.values.empty() ? Words{""} : key.values;
    for (const auto& value : values) out += fmt::format("    {}={} {} \\\n", key.name, value, fish_quoted(key.help));
  }
  return out;
}

std::string script(const CLI::App& app, const std::string& shell) {
  const auto verbs = verbs_of(app);
  const auto keys = all_keys();
  const std::pair<const char*, std::string> places[] = {{"@VERBS@\n", shell == "bash"  ? bash_verbs(verbs)
                                                                      : shell == "zsh" ? zsh_verbs(verbs)
                                                                                       : fish_lines(verbs)},
                                                        {"@FLAGS@\n", flag_cases(verbs)},
                                                        {"@VALUES@\n", value_cases(keys)},
                                                        {"@KEYS@", shell == "fish" ? fish_keys(keys) : names_of(keys)}};
  std::string text(shell == "bash" ? kBashCompletion : shell == "zsh" ? kZshCompletion : kFishCompletion);
  for (const auto& [place, with] : places)
    for (size_t at; (at = text.find(place)) != std::string::npos;)
      text.replace(at, std::string_view(place).size(), with);
  return text;
}

}  // namespace

void add_completion(CLI::App& app) {
  auto* verb = app.add_subcommand("completion", "a script that lets your shell complete verbs, flags and keys");
  auto shell = std::make_shared<std::string>();
  verb->add_option("shell", *shell, "which shell it is for")->required()->type_name("bash|zsh|fish");
  verb->footer(
      "Completes verbs, flags, recipes, section.key= and the values of keys that have few, and the\n"
      "names that --strategies and --schedules take.\n"
      "\n"
      "To have it in every new shell:\n"
      "  bash   thinwire completion bash > ~/.local/share/bash-completion/completions/thinwire\n"
      "  zsh    thinwire completion zsh > FOLDER/_thinwire, with FOLDER in $fpath before compinit is called\n"
      "  fish   thinwire completion fish > ~/.config/fish/completions/thinwire.fish\n"
      "\n"
      "Examples:\n"
      "  thinwire completion bash > ~/.thinwire.bash\n"
      "  eval \"$(thinwire completion bash)\"          # in this shell only");
  verb->callback([=, &app] {
    std::string name;
    read(*shell, "completion", name, one_of({"bash", "zsh", "fish"}));
    fmt::print("{}", script(app, name));
  });
}

}  // namespace thinwire::cli
