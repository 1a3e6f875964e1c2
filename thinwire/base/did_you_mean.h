// What an error says about a name that does not exist: the one place where such a hint is worded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thinwire {

// The one of `names` that needs the fewest edits (insert, delete, replace a character) to become `name`; empty if none
// is near. Of equally near ones the first. Pure.
std::string nearest(std::string_view name, const std::vector<std::string>& names);

// What stands around a name in the message: quotes, or "[" and "]" for a section.
struct Quotes {
  std::string_view open = "'", close = "'";
};
// To stand behind "there is no NAME": "; did you mean 'co2'?", or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& names, const Quotes& quotes = {});
// The same, with all names where none is near: " (there are: sgd, adamw)".
std::string did_you_mean_or_list(std::string_view name, const std::vector<std::string>& names,
                                 const Quotes& quotes = {});

}  // namespace thinwire
