// Words as a shell reads them back.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace thinwire::cli {

// As it is where it needs no quotes, else in single ones.
inline std::string shell_word(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
  if (!word.empty() && std::ranges::all_of(word, [&](char c) { return plain.find(c) != plain.npos; })) return word;
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace thinwire::cli
