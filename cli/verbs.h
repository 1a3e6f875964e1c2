// The verbs of the program, a file each. A verb adds its subcommand; its callback does the work and throws on failure.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/ranks.h"

namespace thinwire::cli {

// The program: what a person typed, the program's name first, carried out. Exit code, and what went wrong.
struct Outcome {
  int code = 0;  // 0 done (or stopped and resumable), 1 failed, 2 wrong use
  std::string error = {};
};
Outcome run(int argc, char** argv, const Door& door);

// Collective where ranks are processes: all of them call it. The other verbs run on rank 0.
void add_train(CLI::App& app, Ranks& ranks);
void add_compare(CLI::App& app, Ranks& ranks);
void add_keys(CLI::App& app);
void add_report(CLI::App& app);
void add_sample(CLI::App& app);
void add_info(CLI::App& app);
void add_bench(CLI::App& app);
void add_doctor(CLI::App& app, const Door& door);
void add_completion(CLI::App& app);  // last: it tells of the others

}  // namespace thinwire::cli
