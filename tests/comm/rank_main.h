// Functions of one rank, found by name: a process that a launcher starts is told which one it is for.
//
//   const RankMain kSum("sum", [](World& world, const Arguments&) -> std::string { ... });
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "thinwire/comm/world.h"

namespace thinwire::comm {

using Arguments = std::vector<std::string>;

// Registers a function, before main(). What it returns is what the rank prints.
struct RankMain {
  using Function = std::function<std::string(World&, const Arguments&)>;
  RankMain(const std::string& name, Function function);
};

// words: the name of a function and its arguments.
const RankMain::Function& registered(const std::string& name);  // an error if there is none
// What every rank returns where ranks are threads, by rank.
std::vector<std::string> run_as_threads(int size, const std::vector<std::string>& words);

struct Said {
  bool failed = false;
  std::string text;
};
// What one rank of a world returns. What it throws is told to the others, and becomes the text after "error: ".
Said run_rank_main(World& world, const std::vector<std::string>& words);

}  // namespace thinwire::comm
