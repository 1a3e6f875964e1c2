// The failures of a network, typed because callers are meant to catch them. After either of them the world is over:
// every pending and later wait, on every rank, throws the same. Ranks are those of the world, in its splits too.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace thinwire::comm {

// A rank failed. Thrown on every other rank that waits for anything, at once.
struct PeerLost : std::runtime_error {
  // `host`: where it ran; empty where that is here, or unknown.
  PeerLost(int rank, const std::string& why, const std::string& host = {})
      : std::runtime_error(
            fmt::format("rank {}{} was lost: {}", rank, host.empty() ? "" : " (host " + host + ")", why)),
        rank(rank) {}
  int rank;
};

// Nothing came from a rank for longer than the world's timeout.
struct Timeout : std::runtime_error {
  Timeout(int rank, double seconds)
      : std::runtime_error(fmt::format("nothing came from rank {} for {:.1f} s", rank, seconds)),
        rank(rank),
        seconds(seconds) {}
  int rank;
  double seconds;
};

// Work that the ranks did together failed on another one (World::together); what it said is in the message.
struct FailedElsewhere : std::runtime_error {
  FailedElsewhere(int rank, const std::string& why, bool bad_input = false)
      : std::runtime_error(fmt::format("rank {}: {}", rank, why)), rank(rank), bad_input(bad_input) {}
  int rank;
  bool bad_input;  // it was a BadInput there
};

}  // namespace thinwire::comm
