#include "thinwire/base/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "thinwire/base/errors.h"

namespace thinwire {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

std::string number_text(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return fmt::format("{}", v);
}

std::string toml_number(double v) {
  std::string text = number_text(v);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string toml_string(const std::string& v) {
  std::string out = "\"";
  for (unsigned char c : v) {
    if (c == '"' || c == '\\')
      (out += '\\') += static_cast<char>(c);
    else if (c < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    else
      out += static_cast<char>(c);
  }
  return out + "\"";
}

void check_range(const std::string& name, double v, const Limit& limit) {
  const bool low = limit.low_open ? v > limit.low : v >= limit.low;
  const bool high = limit.high_open ? v < limit.high : v <= limit.high;
  if (std::isnan(v) || !low || !high)
    throw BadInput("{} must be {}, got {}", name, limit.text().empty() ? "a number" : limit.text(), number_text(v));
}

[[noreturn]] void wrong_type(const std::string& name, const char* wanted, const Value& value) {
  throw BadInput("{} must be {}, got {}", name, wanted, toml_text(value));
}

}  // namespace

std::string toml_text(const Value& value) {
  struct {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return toml_number(v); }
    std::string operator()(const std::string& v) const { return toml_string(v); }
    std::string operator()(const std::vector<double>& v) const {
      std::vector<std::string> parts;
      for (double x : v) parts.push_back(toml_number(x));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
  } print;
  return std::visit(print, value);
}

std::string Limit::text() const {
  if (!choices.empty()) return fmt::format("one of {}", fmt::join(choices, ", "));
  const std::string lower = low == -kInf ? "" : fmt::format("{} {}", low_open ? "above" : "at least", low);
  const std::string upper = high == kInf ? "" : fmt::format("{} {}", high_open ? "below" : "at most", high);
  if (low == high) return fmt::format("{}", low);
  return lower.empty() || upper.empty() ? lower + upper : lower + " and " + upper;
}

Limit any() { return {-kInf, kInf, false, false, {}}; }
Limit at_least(double low) { return {low, kInf, false, false, {}}; }
Limit above(double low) { return {low, kInf, true, false, {}}; }
Limit between(double low, double high) { return {low, high, false, false, {}}; }
Limit at_least_below(double low, double high) { return {low, high, false, true, {}}; }
Limit above_up_to(double low, double high) { return {low, high, true, false, {}}; }
Limit one_of(std::vector<std::string> choices) { return {-kInf, kInf, false, false, std::move(choices)}; }

void read(const Value& value, const std::string& name, int64_t& field, const Limit& limit) {
  auto* v = std::get_if<int64_t>(&value);
  if (!v) wrong_type(name, "a whole number", value);
  check_range(name, static_cast<double>(*v), limit);
  field = *v;
}

void read(const Value& value, const std::string& name, double& field, const Limit& limit) {
  double number;
  if (auto* whole = std::get_if<int64_t>(&value))
    number = static_cast<double>(*whole);
  else if (auto* real = std::get_if<double>(&value))
    number = *real;
  else
    wrong_type(name, "a number", value);
  check_range(name, number, limit);
  field = number;
}

void read(const Value& value, const std::string& name, bool& field, const Limit&) {
  auto* v = std::get_if<bool>(&value);
  if (!v) wrong_type(name, "true or false", value);
  field = *v;
}

void read(const Value& value, const std::string& name, std::string& field, const Limit& limit) {
  auto* v = std::get_if<std::string>(&value);
  if (!v) wrong_type(name, "a text in quotes", value);
  if (!limit.choices.empty() && std::ranges::find(limit.choices, *v) == limit.choices.end()) {
    throw BadInput("{} must be {}, got \"{}\"{}", name, limit.text(), *v,
                   did_you_mean(*v, limit.choices, {"\"", "\""}));
  }
  field = *v;
}

void read(const Value& value, const std::string& name, std::array<double, 2>& field, const Limit& limit) {
  auto* v = std::get_if<std::vector<double>>(&value);
  if (!v || v->size() != 2) wrong_type(name, "two numbers in brackets", value);
  for (double x : *v) check_range(name, x, limit);
  field = {(*v)[0], (*v)[1]};
}

std::string quantity(const Value& value, const std::string& name) {
  if (auto* text = std::get_if<std::string>(&value)) return *text;
  if (auto* whole = std::get_if<int64_t>(&value)) return fmt::format("{}", *whole);
  wrong_type(name, "a number with its unit, in quotes", value);
}

void rename_error(const std::string& name, const std::exception& error) {
  throw BadInput("{}: {}", name, one_line(error));
}

void Reader::finish() const {
  for (const auto& [key, value] : table_) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    throw BadInput("unknown key {}.{}{}", section_, key, did_you_mean_or_list(key, known_, {section_ + ".", ""}));
  }
}

}  // namespace thinwire
