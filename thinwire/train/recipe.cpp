#include "thinwire/train/recipe.h"

#include <fmt/ranges.h>
#define TOML_EXCEPTIONS 1
#define TOML_ASSERT(expression) static_cast<void>(0)  // what it asserts of a text, it checks once more and reports
#pragma push_macro("NDEBUG")
#undef NDEBUG  // with it, clang would be told to assume what is asserted
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>

#include "thinwire/base/did_you_mean.h"
#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"

namespace thinwire::train {
namespace {

constexpr int64_t kMaxRecipe = 16 << 20;  // bytes of a file
const std::vector<std::string> kLengths = {"steps", "tokens", "seconds"};

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  Recipe recipe;
  sections([&](const char* name, auto&) { names.emplace_back(name); }, recipe);
  return names;
}

[[noreturn]] void unknown_section(const std::string& path, const std::string& name) {
  auto names = section_names();
  names.emplace_back("compare");
  throw BadInput("{}: unknown section [{}]{}", path, name, did_you_mean_or_list(name, names, {"[", "]"}));
}

void check_compared(const std::string& name, const std::string& place) {
  const auto strategies = names_of(Compared::strategies), schedules = names_of(Compared::schedules);
  for (const auto& names : {strategies, schedules})
    if (std::ranges::find(names, name) != names.end()) return;
  throw BadInput("{}: there is no strategy '{}'{}", place, name, did_you_mean_or_list(name, strategies));
}

toml::table parsed_by_toml(std::string_view toml, const std::string& path) {
  try {
    return toml::parse(toml, path);
  } catch (const toml::parse_error& error) {
    throw BadInput("{}:{}: {}", path, error.source().begin.line, error.description());
  }
}

// BadInput where a character beyond ASCII is neither in quotes nor in a comment, or a text has several lines.
void check_letters(std::string_view toml, const std::string& path) {
  int64_t line = 1;
  char open = 0;  // '#', or the quote that is open
  for (size_t i = 0; i < toml.size(); ++i) {
    const char c = toml[i];
    if (c == '\n') {
      ++line, open = 0;
    } else if (open == 0 && (c == '#' || c == '"' || c == '\'')) {
      if (c != '#' && toml.substr(i, 3) == std::string(3, c))
        throw BadInput("{}:{}: a recipe has no text of several lines (three quotes)", path, line);
      open = c;
    } else if (c == '\\' && open == '"') {
      ++i;
    } else if (c == open && open != '#') {
      open = 0;
    } else if (open == 0 && static_cast<unsigned char>(c) >= 0x80) {
      throw BadInput("{}:{}: a character that is not ASCII stands outside quotes and comments", path, line);
    }
  }
}

// BadInput with the line if it is not TOML.
//
// Where toml++ 3.3 meets a character beyond ASCII outside quotes and comments, or in a text of several lines, its
// behaviour is undefined. So such a text goes through it with those characters masked first: if that is TOML, quotes
// are where they seem to be, and characters can be checked.
toml::table parsed(std::string_view toml, const std::string& path) {
  std::string masked(toml);
  const auto beyond = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
  std::ranges::replace_if(masked, beyond, 'a');
  if (masked != toml) {
    parsed_by_toml(masked, path);
    check_letters(toml, path);
  }
  return parsed_by_toml(toml, path);
}

Value to_value(const toml::node& node, const std::string& name) {
  if (auto v = node.as_boolean()) return v->get();
  if (auto v = node.as_integer()) return v->get();
  if (auto v = node.as_floating_point()) return v->get();
  if (auto v = node.as_string()) return v->get();
  if (auto list = node.as_array()) {
    std::vector<double> numbers;
    for (const auto& item : *list) {
      auto number = item.value<double>();
      if (!number || item.is_boolean()) throw BadInput("{}: a list holds numbers only", name);
      numbers.push_back(*number);
    }
    return numbers;
  }
  throw BadInput("{}: wanted a number, a text in quotes, true, false, or a list of numbers", name);
}

Table to_table(const toml::table& from, const std::string& section) {
  Table table;
  for (const auto& [key, node] : from)
    table[std::string(key.str())] = to_value(node, section + "." + std::string(key.str()));
  return table;
}

bool is_length(const std::string& section, const std::string& key) {
  return section == "train" && std::ranges::find(kLengths, key) != kLengths.end();
}

bool is_zero(const Value& value) {
  const auto* whole = std::get_if<int64_t>(&value);
  const auto* real = std::get_if<double>(&value);
  return (whole && *whole == 0) || (real && *real == 0);
}

void set(std::map<std::string, Table>& sections, const std::string& section, const std::string& key, Value value) {
  if (is_length(section, key) && !is_zero(value))
    for (const auto& other : kLengths) sections[section].erase(other);
  sections[section][key] = std::move(value);
}

void check_one_length(const Table& train) {
  std::vector<std::string> given;
  for (const auto& key : kLengths)
    if (auto it = train.find(key); it != train.end() && !is_zero(it->second)) given.push_back("train." + key);
  if (given.size() > 1) throw BadInput("a run has one length, got {}", fmt::join(given, " and "));
}

// The keys that a section has while it holds this table. What is wrong in it is reported elsewhere.
std::vector<std::string> keys_of(const std::string& section, const Table& table) {
  std::vector<std::string> known;
  Recipe recipe;
  sections(
      [&](const std::string& name, auto& options) {
        if (name != section) return;
        Reader reader(table, section);
        try {
          fields(reader, options);
        } catch (const BadInput&) {
        }
        known = reader.known();
      },
      recipe);
  return known;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// Another name, other keys: those that only the one before had go.
void rename(Table& table, const std::string& section, const std::string& key, Value value) {
  const auto before = keys_of(section, table);
  table[key] = std::move(value);
  const auto after = keys_of(section, table);
  std::erase_if(table, [&](const auto& entry) { return has(before, entry.first) && !has(after, entry.first); });
}

// pipeline.preset reaches into [optim], where the recipe says nothing itself.
std::map<std::string, Table> with_preset(std::map<std::string, Table> sections) {
  const Table& pipeline = sections["pipeline"];
  Table& optim = sections["optim"];
  const auto says = [](const Table& table, const char* key, const char* word) {
    const auto it = table.find(key);
    return it != table.end() && it->second == Value(std::string(word));
  };
  if (says(pipeline, "preset", "steady") && says(optim, "name", "muon"))
    optim.try_emplace("rest", std::string("nadamw"));
  return sections;
}

}  // namespace

int64_t Recipe::planned_steps() const {
  if (train.seconds > 0) return 0;
  if (train.tokens > 0) return std::max<int64_t>(1, (train.tokens + tokens_per_step() - 1) / tokens_per_step());
  return train.steps;
}

RecipeText read_recipe(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) throw BadInput("there is no recipe {}", path.string());
  try {
    return parse_recipe(read_file(path, kMaxRecipe), path.string());
  } catch (const Unreadable& error) {
    throw BadInput("{} cannot be read as a recipe: {}", path.string(), error.reason);
  }
}

// A key of very many parts would be followed to its depth, beyond the end of the stack.
void check_depth(std::string_view toml, const std::string& path) {
  constexpr int64_t kMostDots = 1000;
  for (size_t begin = 0; begin < toml.size();) {
    const size_t end = std::min(toml.find('\n', begin), toml.size());
    const std::string_view line = toml.substr(begin, end - begin);
    if (std::ranges::count(line.substr(0, line.find('=')), '.') > kMostDots)
      throw BadInput("{}: a key has more than {} dots; a recipe's keys are section.key", path, kMostDots);
    begin = end + 1;
  }
}

RecipeText parse_recipe(std::string_view toml, const std::string& path) {
  check_depth(toml, path);
  RecipeText text;
  text.name = std::filesystem::path(path).stem().string();
  const toml::table root = parsed(toml, path);
  const auto names = section_names();
  for (const auto& [key, node] : root) {
    const std::string name(key.str());
    const auto* table = node.as_table();
    if (!table) throw BadInput("{}: {} is outside any section", path, name);
    if (name != "compare") {
      if (std::ranges::find(names, name) == names.end()) unknown_section(path, name);
      text.sections[name] = to_table(*table, name);
      continue;
    }
    for (const auto& [strategy, overrides] : *table) {
      const std::string place = "compare." + std::string(strategy.str());
      check_compared(std::string(strategy.str()), path + ": [" + place + "]");
      if (!overrides.is_table()) throw BadInput("{}: wanted a section [{}]", path, place);
      for (const auto& [section, keys] : *overrides.as_table()) {
        const std::string owner(section.str());
        if (std::ranges::find(names, owner) == names.end()) unknown_section(path, place + "." + owner);
        if (!keys.is_table()) throw BadInput("{}: wanted {}.{}.KEY = value", path, place, owner);
        auto& own = text.per_name[std::string(strategy.str())][owner] = to_table(*keys.as_table(), place + "." + owner);
        if (owner == "strategy" && own.contains("name"))
          throw BadInput("{}: {}.strategy.name cannot be set: the section is for one strategy", path, place);
      }
    }
  }
  return text;
}

void set_key(RecipeText& text, std::string_view assignment) {
  const size_t equals = assignment.find('='), dot = assignment.find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos || dot > equals)
    throw BadInput("'{}' is not section.key=value", assignment);
  const std::string section(assignment.substr(0, dot)), key(assignment.substr(dot + 1, equals - dot - 1));
  const std::string value(assignment.substr(equals + 1));
  const auto names = section_names();
  if (std::ranges::find(names, section) == names.end()) unknown_section("command line", section);
  Value said = value;  // a bare word: strategy.name=co2
  toml::table table;
  try {
    table = parsed("v = " + value, "");
  } catch (const BadInput&) {
  }
  if (table.size() == 1) said = to_value(*table.get("v"), section + "." + key);
  if (key == "name" || key == "source")
    rename(text.sections[section], section, key, std::move(said));
  else
    set(text.sections, section, key, std::move(said));
}

void set_keys(RecipeText& text, const std::vector<std::string>& assignments) {
  auto names_one = [](std::string_view a) {
    const auto key = a.substr(0, a.find('='));
    return key.ends_with(".name") || key.ends_with(".source");
  };
  for (bool names : {true, false})
    for (const auto& assignment : assignments)
      if (names_one(assignment) == names) set_key(text, assignment);
}

Recipe make_recipe(const RecipeText& given) {
  RecipeText text = given;
  text.sections = with_preset(std::move(text.sections));
  Recipe recipe;
  if (auto it = text.sections.find("train"); it != text.sections.end()) check_one_length(it->second);
  sections(
      [&](const std::string& name, auto& options) {
        auto it = text.sections.find(name);
        if (it != text.sections.end()) read_section(it->second, name, options);
      },
      recipe);
  data::resolve(recipe.data);
  return recipe;
}

std::vector<std::string> names_of(Compared what) {
  if (what == Compared::strategies) return dp::strategy_names();
  auto names = pipeline::schedule_names();
  names.emplace_back("steady");
  return names;
}

Recipe make_recipe_for(const RecipeText& text, Compared what, const std::string& name,
                       const std::vector<std::string>& all) {
  RecipeText own = text;
  const std::string section = what == Compared::strategies ? "strategy" : "pipeline";
  const Table asked = own.sections[section];
  if (auto it = asked.find("name"); what == Compared::strategies && it != asked.end()) {
    std::string typed;  // not used here, but a typo is one
    read(it->second, "strategy.name", typed, one_of(dp::strategy_names()));
  }
  const auto named = [&](const std::string& as) {
    Table table = asked;
    if (what == Compared::strategies) {
      table["name"] = as;
    } else {
      table["preset"] = std::string(as == "steady" ? "steady" : "none");
      table["schedule"] = std::string(as == "steady" ? "async_1f1b" : as);
    }
    return table;
  };
  const bool is_named = what == Compared::schedules || asked.contains("name");
  const auto own_keys = is_named ? keys_of(section, asked) : std::vector<std::string>{};
  Table& table = own.sections[section] = named(name);
  for (const auto& [key, value] : asked) {
    if (has(keys_of(section, named(name)), key)) continue;
    const auto has_it = [&, key = key](const auto& other) { return has(keys_of(section, named(other)), key); };
    if (!has(own_keys, key) && std::ranges::none_of(all, has_it))
      throw BadInput("unknown key {}.{}: none of {} has it", section, key, fmt::join(all, ", "));
    table.erase(key);
  }
  if (auto it = text.per_name.find(name); it != text.per_name.end())
    for (const auto& [of, keys] : it->second) {
      if (of == "train") check_one_length(keys);
      for (const auto& [key, value] : keys) set(own.sections, of, key, value);
    }
  return make_recipe(own);
}

std::string to_toml(const Recipe& recipe) {
  std::string out;
  sections(
      [&](const char* name, const auto& options) {
        out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", name);
        for (const auto& field : list_fields(options)) {
          const std::string line = fmt::format("{} = {}", field.key, toml_text(field.value));
          out += fmt::format("{:<39} # {}{}\n", line, field.help,
                             field.allowed.empty() ? "" : fmt::format(" ({})", field.allowed));
        }
      },
      recipe);
  return out;
}

std::optional<std::string> first_difference(const Recipe& there, const Recipe& here, Keys keys) {
  auto left_out = [&](const std::string& key) {
    if (keys == Keys::all) return false;
    return key.starts_with("link.") || key.starts_with("train.save_") || key == "train.keep_checkpoints" ||
           key == "train.timeout" || key == "train.force" || key == "train.on_divergence" ||
           key == "data.path";  // the text's hash is compared instead
  };
  std::map<std::string, std::string> stored;
  sections(
      [&](const std::string& name, const auto& options) {
        for (const auto& field : list_fields(options)) stored[name + "." + field.key] = toml_text(field.value);
      },
      there);
  std::optional<std::string> found;
  sections(
      [&](const std::string& name, const auto& options) {
        for (const auto& field : list_fields(options)) {
          const std::string key = name + "." + field.key, value = toml_text(field.value);
          const auto it = stored.find(key);
          if (!found && !left_out(key) && (it == stored.end() || it->second != value))
            found = fmt::format("{} is {} there and {} here", key, it == stored.end() ? "unset" : it->second, value);
        }
      },
      here);
  return found;
}

}  // namespace thinwire::train
