#include "thinwire/dp/steps_or_auto.h"

#include <fmt/format.h>

#include <charconv>

#include "thinwire/base/errors.h"

namespace thinwire::dp {

bool read_steps_or_auto(const Value& value, const std::string& name, int64_t& steps, const Limit& limit) {
  const auto* text = std::get_if<std::string>(&value);
  if (text && *text != "auto") throw BadInput("{} must be a number of steps or \"auto\", got \"{}\"", name, *text);
  steps = 0;
  if (!text) read(value, name, steps, limit);
  return text != nullptr;
}

Value steps_or_auto(bool automatic, int64_t steps) {
  if (automatic) return std::string("auto");
  return steps;
}

std::optional<double> read_count_or_share(const Value& value, const std::string& name, const char* what, int64_t& count,
                                          const Limit& limit) {
  count = 0;
  const auto* text = std::get_if<std::string>(&value);
  if (!text) {
    read(value, name, count, limit);
    return {};
  }
  double percent = -1;
  const char* last = text->data() + text->size() - 1;  // where the % is
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), percent);
  if (parsed.ec != std::errc() || !text->ends_with('%') || parsed.ptr != last || !(percent >= 0 && percent <= 100))
    throw BadInput("{} must be a number of {} or a share like \"5%\", got \"{}\"", name, what, *text);
  return percent / 100;
}

Value count_or_share(const std::optional<double>& share, int64_t count) {
  if (share) return fmt::format("{}%", *share * 100);
  return count;
}

}  // namespace thinwire::dp
