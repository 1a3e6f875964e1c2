#include "thinwire/base/units.h"

#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "thinwire/base/errors.h"

namespace thinwire {
namespace {

using Unit = std::pair<std::string_view, double>;

constexpr Unit kBytes[] = {{"B", 1},        {"kB", 1e3},        {"MB", 1e6},          {"GB", 1e9},
                           {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}};
constexpr Unit kSeconds[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"min", 60}, {"h", 3600}};
constexpr Unit kRates[] = {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}};

// The number and its unit's factor, multiplied; `what` and `example` make the error readable.
double parse(std::string_view text, std::span<const Unit> units, const char* what, const char* example) {
  double number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(end - text.data());
  if (error == std::errc() && number >= 0) {
    for (const auto& [name, factor] : units)
      if (unit == name && std::isfinite(number * factor)) return number * factor;
  }
  std::string names;
  for (const auto& [name, factor] : units) names += (names.empty() ? "" : ", ") + std::string(name);
  throw BadInput("'{}' is not {}: wanted a number and one of {}, like \"{}\"", text, what, names, example);
}

// The shortest number that reads back as `value`, in the largest unit that leaves at least 1, or else in the first unit
// (whose factor is 1, so that it always can).
std::string print(double value, std::span<const Unit> units) {
  Unit best = units[0];
  for (const auto& unit : units)
    if (unit.second > best.second ? value >= unit.second : value < best.second && unit.second < best.second)
      best = unit;
  for (const Unit& unit : {best, units[0]}) {
    for (int digits = 1; digits <= 17; ++digits) {
      const std::string text = fmt::format("{:.{}g}", value / unit.second, digits);
      double number = 0;
      std::from_chars(text.data(), text.data() + text.size(), number);
      if (number * unit.second == value) return fmt::format("{}{}", number, unit.first);
    }
  }
  return fmt::format("{}{}", value, units[0].first);
}

}  // namespace

void from_text(std::string_view text, Bytes& out) {
  int64_t plain = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), plain);
  if (error == std::errc() && end == text.data() + text.size() && plain >= 0) {
    out.count = plain;
    return;
  }
  const double count = parse(text, kBytes, "a size", "25MiB");
  if (count >= 0x1p63) throw BadInput("'{}' is more bytes than 64 bits can count", text);
  out.count = std::llround(count);
}

std::string to_text(const Bytes& bytes) {
  for (const auto& [name, factor] : {Unit{"GiB", 1073741824.0}, Unit{"MiB", 1048576.0}, Unit{"KiB", 1024.0}})
    if (bytes.count > 0 && bytes.count % static_cast<int64_t>(factor) == 0)
      return fmt::format("{}{}", bytes.count / static_cast<int64_t>(factor), name);
  return fmt::format("{}B", bytes.count);
}

double parse_seconds(std::string_view text) { return parse(text, kSeconds, "a time", "20ms"); }
std::string seconds_text(double seconds) {
  if (seconds == 0) return "0s";
  return print(seconds, std::span(kSeconds).first(3));
}

double parse_rate(std::string_view text) { return parse(text, kRates, "a rate", "100mbit"); }
std::string rate_text(double bits_per_second) { return print(bits_per_second, kRates); }

}  // namespace thinwire
