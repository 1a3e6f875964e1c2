// What a person or a scheduler can ask of a run by a signal.
//
//   SIGINT (Ctrl-C), SIGTERM, SIGHUP   stop after this step, with a checkpoint; a second one ends the program at once
//   SIGUSR1                            save a checkpoint and go on
//
// SIGHUP stays ignored where it was (nohup). All of this holds while a Signals exists; elsewhere signals do what they
// do to any program.
#pragma once

#include <atomic>

namespace thinwire::cli {

class Signals {
 public:
  // `words` are written to stderr when the first one comes. Under a launcher a scheduler's SIGTERM may come twice, by
  // two ways: within 5 s it counts once.
  explicit Signals(const char* words = nullptr, bool launched = false);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  static const std::atomic<bool>& stop();
  static std::atomic<bool>& save();
};

}  // namespace thinwire::cli
