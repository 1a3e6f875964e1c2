// What to say to somebody who wrote a name that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thinwire {

// The word of `words` that needs the fewest edits to become `word`; empty if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& words);

struct Quotes {
  std::string_view open = "'", close = "'";
};
// To stand behind "there is no WORD": "; did you mean 'co2'?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& words, const Quotes& quotes = {});
// The same, with all words where none is near: " (there are: sgd, adamw)".
std::string did_you_mean_or_list(std::string_view word, const std::vector<std::string>& words,
                                 const Quotes& quotes = {});

}  // namespace thinwire
