// A link, as a value: how many bits a second, and how long a bit is under way.
//
//   "100mbit/20ms"   rate / one-way latency        "1gbit"       no latency
//   "none"           as fast as it goes            "none/20ms"   latency only
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace thinwire::net {

struct Link {
  double rate = std::numeric_limits<double>::infinity();  // bits a second, > 0
  double latency = 0;                                     // seconds, one way

  bool none() const { return rate == std::numeric_limits<double>::infinity() && latency == 0; }
  // Seconds for which a message of so many bytes keeps the sender's uplink busy.
  double busy_s(int64_t bytes) const { return static_cast<double>(bytes) * 8 / rate; }
  friend bool operator==(const Link&, const Link&) = default;
};

void from_text(std::string_view text, Link& out);
std::string to_text(const Link& link);

}  // namespace thinwire::net
