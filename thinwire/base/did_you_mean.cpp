#include "thinwire/base/did_you_mean.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace thinwire {
namespace {

size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& names) {
  std::string best;
  size_t least = std::max<size_t>(2, name.size() / 2) + 1;
  for (const auto& candidate : names) {
    const size_t distance = edits(name, candidate);
    if (distance < least && distance < std::max(name.size(), candidate.size())) least = distance, best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& names, const Quotes& quotes) {
  const std::string near = nearest(name, names);
  return near.empty() ? "" : fmt::format("; did you mean {}{}{}?", quotes.open, near, quotes.close);
}

std::string did_you_mean_or_list(std::string_view name, const std::vector<std::string>& names, const Quotes& quotes) {
  const std::string hint = did_you_mean(name, names, quotes);
  return hint.empty() ? fmt::format(" (there are: {})", fmt::join(names, ", ")) : hint;
}

}  // namespace thinwire
