// The verbs of the program, a file each. A verb adds its subcommand; its callback does the work and throws on failure.
#pragma once

#include <CLI/CLI.hpp>

namespace thinwire::cli {

void add_train(CLI::App& app);
void add_compare(CLI::App& app);
void add_keys(CLI::App& app);
void add_report(CLI::App& app);
void add_sample(CLI::App& app);
void add_info(CLI::App& app);
void add_bench(CLI::App& app);
void add_doctor(CLI::App& app);
void add_completion(CLI::App& app);  // last: it tells of the others

}  // namespace thinwire::cli
