// Options, declared once.
//
// An options struct has defaults, and beside it one function that lists its fields:
//
//   struct CropOptions { int64_t width = 8; double share = 0.5; };
//   template <class F> void fields(F&& f, CropOptions& o) {
//     f("width", o.width, at_least(1), "columns kept");
//     f("share", o.share, between(0, 1), "part of the rows kept");
//   }
//   read_section({{"width", int64_t{12}}}, "crop", o);    // from a recipe; BadInput: "crop.width must be at least 1
//   .." check_fields("crop", o);                              // filled in by a program for (const Field& field :
//   list_fields(o)) ..          // help, and the recipe that a run writes down
//
// From that list come the recipe's keys, the range checks, the complete recipe that a run writes down and the help.
// A field may be int64_t, double, bool, std::string, two numbers (std::array<double, 2>), or any type with
// from_text(std::string_view, T&) and to_text(const T&), such as Bytes. A list may ask for fewer fields after it has
// read an earlier one (keep exists only where delay is 1): a key that was not asked for is unknown.
//
// An option of your own: a struct and a fields() in its own namespace, found by argument-dependent lookup
// (examples/own_options.cpp). All errors are BadInput that starts with "section.key". No state, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "thinwire/base/did_you_mean.h"

namespace thinwire {

// A value as a recipe or a command line can say it, and one section of them.
using Value = std::variant<bool, int64_t, double, std::string, std::vector<double>>;
using Table = std::map<std::string, Value>;

// The value as TOML writes it, quotes and all; reading that text gives the value back, to the bit.
std::string toml_text(const Value& value);

// What a field may be: numbers of an interval, or one of some choices, or anything. NaN is never allowed.
struct Limit {
  double low, high;                          // of numbers
  bool low_open = false, high_open = false;  // whether the ends are excluded
  std::vector<std::string> choices;          // of texts; empty: any
  std::string text() const;                  // "at least 1", "one of gpt, mlp"
};
// Made by these.
Limit any();
Limit at_least(double low);
Limit above(double low);
Limit between(double low, double high);
Limit at_least_below(double low, double high);  // [low, high)
Limit above_up_to(double low, double high);     // (low, high]
Limit one_of(std::vector<std::string> choices);

// Sets one field from a value; BadInput that starts with `name` if its type or range is wrong.
void read(const Value& value, const std::string& name, int64_t& field, const Limit& limit);
void read(const Value& value, const std::string& name, double& field, const Limit& limit);
void read(const Value& value, const std::string& name, bool& field, const Limit& limit);
void read(const Value& value, const std::string& name, std::string& field, const Limit& limit);
void read(const Value& value, const std::string& name, std::array<double, 2>& field, const Limit& limit);
// For the types with from_text(): the value as text, and an exception that starts with the option's name.
std::string quantity(const Value& value, const std::string& name);
[[noreturn]] void rename_error(const std::string& name, const std::exception& error);

// Any other type, by its from_text(), which throws BadInput for a text that is none.
template <class T>
void read(const Value& value, const std::string& name, T& field, const Limit&) {
  const std::string text = quantity(value, name);
  try {
    from_text(text, field);
  } catch (const std::exception& error) {
    rename_error(name, error);
  }
}

// The way back, for recipes that are written down.
inline Value to_value(int64_t v) { return v; }
inline Value to_value(double v) { return v; }
inline Value to_value(bool v) { return v; }
inline Value to_value(const std::string& v) { return v; }
inline Value to_value(const std::array<double, 2>& v) { return std::vector<double>{v[0], v[1]}; }
template <class T>
Value to_value(const T& v) {
  return to_text(v);
}

// The visitors that fields() is called with. One that fills an options struct from a table, which must outlive it.
class Reader {
 public:
  Reader(const Table& table, std::string section) : table_(table), section_(std::move(section)) {}

  // A key that the table has is read; a field without one keeps its default.
  template <class T>
  void operator()(std::string_view key, T& field, const Limit& limit, std::string_view /*help*/) {
    known_.emplace_back(key);
    if (auto it = table_.find(known_.back()); it != table_.end())
      read(it->second, section_ + "." + known_.back(), field, limit);
  }

  // After fields().
  void finish() const;  // BadInput for a key that no field asked for, with the nearest name that exists
  const std::vector<std::string>& known() const { return known_; }

 private:
  const Table& table_;
  std::string section_;
  std::vector<std::string> known_;
};

// Fills `options` from a section of a recipe. BadInput for a wrong value or an unknown key.
template <class Options>
void read_section(const Table& table, const std::string& section, Options& options) {
  Reader reader(table, section);
  fields(reader, options);
  reader.finish();
}

// One that checks an options struct that a program filled in, by reading what it would write.
struct Checker {
  std::string section;
  template <class T>
  void operator()(std::string_view key, T& field, const Limit& limit, std::string_view /*help*/) {
    T copy = field;
    read(to_value(field), section + "." + std::string(key), copy, limit);
  }
};

// BadInput if a field is out of its range: constructors call it, so that C++ and recipes have the same rules.
template <class Options>
void check_fields(const std::string& section, Options options) {
  Checker checker{section};
  fields(checker, options);
}

// One that lists an options struct.
// One option as a list has it.
struct Field {
  std::string key;
  Value value;                // as it is now
  std::string allowed, help;  // its limit as text; what it means
};
struct Lister {
  std::vector<Field> list;
  template <class T>
  void operator()(std::string_view key, T& field, const Limit& limit, std::string_view help) {
    list.push_back({std::string(key), to_value(field), limit.text(), std::string(help)});
  }
};

// All fields with their values, ranges and help, in their order: what help and to_toml() are made from.
template <class Options>
std::vector<Field> list_fields(Options options) {
  Lister lister;
  fields(lister, options);
  return lister.list;
}

}  // namespace thinwire
