// The failures of a network, typed because callers are meant to catch them. (A wrong call is c10::Error, bad input is
// BadInput: base/errors.h. Neither is meant to be caught and survived.)
//
// After PeerLost or Timeout the world is over: every pending and later wait, on every rank, throws the same, and what
// was in flight is undefined. A program that goes on makes a new world and loads its last checkpoint
// (examples/own_loop.cpp). Ranks are those of the world, in its splits too.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace thinwire::comm {

// A rank failed: it threw, its process ended, or its connection broke. Thrown at once on every other rank that waits
// for anything, whether for that rank or not.
struct PeerLost : std::runtime_error {
  // `host`: where it ran; empty where that is here, or unknown.
  PeerLost(int rank, const std::string& why, const std::string& host = {})
      : std::runtime_error(
            fmt::format("rank {}{} was lost: {}", rank, host.empty() ? "" : " (host " + host + ")", why)),
        rank(rank) {}
  int rank;  // the one that failed first, as far as this rank has heard
};

// A rank is stuck: nothing came from it for longer than the world's timeout (Transport::set_timeout), not counting
// emulated transfer time.
struct Timeout : std::runtime_error {
  Timeout(int rank, double seconds)
      : std::runtime_error(fmt::format("nothing came from rank {} for {:.1f} s", rank, seconds)),
        rank(rank),
        seconds(seconds) {}
  int rank;        // the one that is silent, which may not be the one that was waited for
  double seconds;  // that it was waited for
};

// Work that the ranks did together failed on another one (World::together); its message is part of this one. The world
// goes on: no message was lost.
struct FailedElsewhere : std::runtime_error {
  FailedElsewhere(int rank, const std::string& why, bool bad_input = false)
      : std::runtime_error(fmt::format("rank {}: {}", rank, why)), rank(rank), bad_input(bad_input) {}
  int rank;        // where
  bool bad_input;  // it was a BadInput there
};

}  // namespace thinwire::comm
