// Numbers that carry their unit: "25MiB", "20ms", "100mbit". Reading is strict: a number without a unit, or with
// the unit of something else, is BadInput that says what was wanted. Writing gives a text that reads back as the
// same number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thinwire {

// "512", "4kB", "25MiB", "1.5GB": whole bytes. k, M, G are powers of 1000; Ki, Mi, Gi powers of 1024.
struct Bytes {
  int64_t count = 0;
  friend bool operator==(const Bytes&, const Bytes&) = default;
};
void from_text(std::string_view text, Bytes& out);
std::string to_text(const Bytes& bytes);

// "20ms", "1.5s", "3us", "2min": seconds, at least 0.
double parse_seconds(std::string_view text);
std::string seconds_text(double seconds);

// "100mbit", "1gbit", "64kbit": bits a second, powers of 1000.
double parse_rate(std::string_view text);
std::string rate_text(double bits_per_second);

}  // namespace thinwire
