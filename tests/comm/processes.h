// Tests whose ranks are processes: they share no memory, and die alone.
//
// The program runs itself once a rank (run_processes); such a process finds its sockets in its environment and the
// function it is for by its name (rank_main.h). A test registers that function and starts it:
//
//   const RankMain kSum("sum", [](World& world, const Arguments&) -> std::string { ... });
//   TEST(...) { for (auto& ended : run_processes(3, {"sum"})) EXPECT_EQ(ended.text, "..."); }
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/comm/rank_main.h"
#include "thinwire/comm/world.h"

namespace thinwire::comm {

struct ProcessOptions {
  double timeout_s = 60;  // of the world
  double limit_s = 120;   // after which what is left is killed
  // Rank r's clock is r times this many seconds ahead of this process's. Takes rights that not everybody has: without
  // them the processes end with kNoRights.
  int clock_step_s = 0;
};
inline constexpr int kNoRights = 77;

struct Ended {
  int code = -1;  // of exit; -1: killed by `signal`
  int signal = 0;
  bool in_time = true;  // it was not the limit that killed it
  std::string text;     // its stdout
};

// By rank. words: the name of the function and its arguments.
std::vector<Ended> run_processes(int size, const std::vector<std::string>& words, const ProcessOptions& options = {});

// In a process that run_processes started: its world, once all ranks are there. Elsewhere nothing.
std::optional<World> world_of_process();
// Runs the function; main()'s result. In such a process only.
int run_rank(const std::vector<std::string>& words);

}  // namespace thinwire::comm
