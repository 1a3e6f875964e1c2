// Flags of a verb, made from an options struct's list of fields (thinwire/base/options.h): top_k becomes --top-k.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

#include "thinwire/base/options.h"

namespace thinwire::cli {

inline std::string flag_name(std::string_view key) {
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

template <class Options>
void add_flags(CLI::App& verb, Options& options) {
  auto add = [&]<class T>(std::string_view key, T& field, const Limit&, std::string_view help) {
    const char* kind = std::is_same_v<T, int64_t> ? "N" : std::is_same_v<T, double> ? "X" : "TEXT";
    verb.add_option(flag_name(key), field, std::string(help))->type_name(kind)->capture_default_str();
  };
  fields(add, options);
}

// BadInput for the first flag out of its range: "--temperature must be at least 0, got -1".
template <class Options>
void check_flags(Options options) {
  auto check = [](std::string_view key, auto& field, const Limit& limit, std::string_view) {
    read(to_value(field), flag_name(key), field, limit);
  };
  fields(check, options);
}

}  // namespace thinwire::cli
