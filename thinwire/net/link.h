// A network link, as a value: rate, one-way latency, jitter, and a script of changes and outages. It is emulated by
// emulated_transport.h, and planned with by pure functions.
//
//   "100mbit/20ms"            rate / one-way latency              "1gbit"        no latency
//   "none"                    as fast as it goes                  "none/20ms"    latency only
//   "20mbit:100mbit/20ms"     up : down (without it, receiving is not limited)
//   "100mbit/20ms~5ms"        each message is up to 5 ms later still, by a seeded draw
//   "100mbit/20ms, at 5s 10mbit, at 8s down 2s"
//                             a script: from 5 s on another rate (or up:down), at 8 s nothing passes for 2 s
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::net {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// Something that happens to a link, in seconds from its start.
struct Event {
  double at = 0;
  double outage = 0;  // seconds for which nothing passes; 0: a change of rates instead
  double rate = kUnlimited, down = kUnlimited;
  friend bool operator==(const Event&, const Event&) = default;
};

struct Link {
  double rate = kUnlimited;        // of sending, bits a second, > 0
  double latency = 0;              // seconds, one way
  double down = kUnlimited;        // of receiving
  double jitter = 0;               // seconds that are added at most
  std::vector<Event> events = {};  // ordered by time

  bool none() const { return *this == Link{}; }
  friend bool operator==(const Link&, const Link&) = default;
};

// The text above and back: to_text() gives a text that from_text() reads as an equal link. BadInput that says what was
// wanted for a text that is none, a rate or time out of range, or events out of order.
void from_text(std::string_view text, Link& out);
std::string to_text(const Link& link);

// When the last bit of a message has passed the uplink (the downlink) that starts on it at `begin`, in seconds from the
// link's start. Pure: the script is followed through.
double sent_at(const Link& link, double begin, int64_t bytes);
double received_at(const Link& link, double begin, int64_t bytes);

}  // namespace thinwire::net
