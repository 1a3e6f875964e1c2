#include "thinwire/dp/slicing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "thinwire/base/errors.h"
#include "thinwire/base/random.h"
#include "thinwire/dp/steps_or_auto.h"

namespace thinwire::dp {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
  return begin == text.npos ? std::string_view() : text.substr(begin, end - begin + 1);
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// "at 10% 4" or "at 500 4".
std::optional<SliceCount::Change> change(std::string_view text) {
  if (!text.starts_with("at ")) return {};
  text = trimmed(text.substr(3));
  const size_t space = text.find(' ');
  if (space == text.npos) return {};
  std::string_view when = text.substr(0, space);
  const auto count = number<int64_t>(trimmed(text.substr(space)));
  if (!count || *count < 1) return {};
  if (when.ends_with('%')) {
    const auto percent = number<double>(when.substr(0, when.size() - 1));
    if (!percent || !(*percent > 0 && *percent < 100)) return {};
    return SliceCount::Change{.share = *percent / 100, .count = *count};
  }
  const auto step = number<int64_t>(when);
  if (!step || *step < 1) return {};
  return SliceCount::Change{.step = *step, .count = *count};
}

}  // namespace

void Slicing::parts_of(int64_t count, int64_t index, int64_t cycle, std::vector<kernels::Part>& parts) const {
  static const uint64_t stream = stream_id("slice lanes");
  parts.clear();
  int64_t packed = 0;
  for (int64_t run = 0; run * count < blocks(); ++run) {
    const uint64_t bits = hash64({seed, stream, static_cast<uint64_t>(cycle), static_cast<uint64_t>(run)});
    const auto shift = static_cast<int64_t>(below(static_cast<uint64_t>(count), bits));
    const int64_t b = run * count + (index - shift + count) % count;  // (shift + b) mod count = index
    if (b >= blocks()) continue;
    const int64_t at = b * block, n = std::min(block, numel - at);
    parts.push_back({.at = at, .packed = packed, .numel = n});
    packed += n;
  }
}

int64_t SliceCount::at(int64_t step, int64_t planned) const {
  int64_t count = changes.front().count;
  for (const Change& c : changes) {
    if (c.share > 0 && planned == 0)
      throw BadInput(
          "strategy.slices changes at {:g}% of a run whose steps are not known beforehand: name a step, or "
          "give the run train.steps or train.tokens",
          c.share * 100);
    const auto from = c.share > 0 ? std::llround(c.share * static_cast<double>(planned)) : c.step;
    if (step > from || from == 0) count = c.count;
  }
  return count;
}

int64_t SliceCount::least() const { return std::ranges::min(changes, {}, &Change::count).count; }
int64_t SliceCount::most() const { return std::ranges::max(changes, {}, &Change::count).count; }

void read(const Value& value, const std::string& name, SliceCount& count, const Limit& limit) {
  const auto* text = std::get_if<std::string>(&value);
  SliceCount::Change first;
  if (!text) {
    thinwire::read(value, name, first.count, limit);
    count.changes = {first};
    return;
  }
  std::vector<SliceCount::Change> changes;
  for (size_t at = 0; at <= text->size();) {
    const size_t comma = std::min(text->find(',', at), text->size());
    const std::string_view item = trimmed(std::string_view(*text).substr(at, comma - at));
    at = comma + 1;
    std::optional<SliceCount::Change> found;
    if (!changes.empty())
      found = change(item);
    else if (auto n = number<int64_t>(item); n && *n >= 1)
      found = SliceCount::Change{.count = *n};
    if (!found || (found->share > 0 && found->share <= changes.back().share) ||
        (found->step > 0 && found->step <= changes.back().step))
      throw BadInput("{} must be a number, or numbers that change in order like \"8, at 10% 4\", got \"{}\"", name,
                     *text);
    changes.push_back(*found);
  }
  count.changes = std::move(changes);
}

Value to_value(const SliceCount& count) {
  if (count.changes.size() == 1) return count.changes[0].count;
  std::string text = std::to_string(count.changes[0].count);
  for (size_t i = 1; i < count.changes.size(); ++i) {
    const auto& c = count.changes[i];
    text +=
        c.share > 0 ? fmt::format(", at {:g}% {}", c.share * 100, c.count) : fmt::format(", at {} {}", c.step, c.count);
  }
  return text;
}

void read(const Value& value, const std::string& name, Delay& delay, const Limit& limit) {
  delay.automatic = read_steps_or_auto(value, name, delay.steps, limit);
}

Value to_value(const Delay& delay) { return steps_or_auto(delay.automatic, delay.steps); }

int64_t Launches::of(int64_t all) const {
  if (!is_share) return count;
  if (all == 0)
    throw BadInput(
        "{:g}% of the launches of a run whose steps are not known beforehand: name a number, or give the run "
        "train.steps or train.tokens",
        share * 100);
  return std::llround(share * static_cast<double>(all));
}

void read(const Value& value, const std::string& name, Launches& launches, const Limit& limit) {
  const auto share = read_count_or_share(value, name, "launches", launches.count, limit);
  launches.is_share = share.has_value();
  launches.share = share.value_or(0);
}

Value to_value(const Launches& launches) {
  return count_or_share(launches.is_share ? std::optional(launches.share) : std::nullopt, launches.count);
}

}  // namespace thinwire::dp
