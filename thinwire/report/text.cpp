#include "thinwire/report/text.h"

#include <fmt/format.h>

#include <cmath>
#include <regex>

namespace thinwire::report {
namespace {

constexpr const char* kUnknown = "–";

// Three digits, but never less than the whole number.
std::string three_digits(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') out += c;
    }
  }
  return out;
}

std::string fixed_text(double value, int decimals) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, decimals) : kUnknown;
}

std::string signed_text(double value, int decimals) {
  return std::isfinite(value) ? (value < 0 ? "−" : "+") + fixed_text(std::abs(value), decimals) : kUnknown;
}

std::string short_count(double n) {
  if (!std::isfinite(n)) return kUnknown;
  if (n < 1000) return fmt::format("{:.0f}", n);
  if (n < 999.5e3) return three_digits(n / 1e3) + "k";
  if (n < 999.5e6) return three_digits(n / 1e6) + "M";
  return three_digits(n / 1e9) + "G";
}

std::string bytes_text(double bytes) {
  if (!std::isfinite(bytes)) return kUnknown;
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  if (bytes < 999.5e3) return three_digits(bytes / 1e3) + " kB";
  if (bytes < 999.5e6) return three_digits(bytes / 1e6) + " MB";
  return three_digits(bytes / 1e9) + " GB";
}

std::string time_text(double seconds) {
  if (!std::isfinite(seconds)) return kUnknown;
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 119.5) return three_digits(seconds) + " s";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 2 * 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
}

std::string percent_text(double share) {
  if (!std::isfinite(share)) return kUnknown;
  const double percent = 100 * share;
  return percent >= 0.05 && percent < 0.95 ? fmt::format("{:.1f} %", percent) : fmt::format("{:.0f} %", percent);
}

std::string link_text(const std::string& link) {
  if (link.empty() || link == "none") return "none: as fast as it goes";
  static const std::regex simple("([0-9.]+)([kmg])bit/([0-9.]+)(us|ms|s)");
  std::smatch m;
  if (!std::regex_match(link, m, simple)) return link;
  const std::string prefix = m[2] == "k" ? "kbit/s" : m[2] == "m" ? "Mbit/s" : "Gbit/s";
  return fmt::format("{} {}, {} {}", m[1].str(), prefix, m[3].str(), m[4] == "us" ? "µs" : m[4].str());
}

std::string and_text(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return out;
}

}  // namespace thinwire::report
