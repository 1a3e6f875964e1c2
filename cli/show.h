// Numbers, tables and runs as a person reads them; JSON lines for programs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "thinwire/train/run.h"

namespace thinwire::cli {

std::string count_text(double n);        // 950, 12.3k, 4.56M
std::string megabytes_text(double b);    // 0.04 MB, 12.3 MB
std::string clock_text(double seconds);  // 0:07, 1:02:03

// "co2: gpt of 0.86M parameters, 4 replicas over 100mbit/20ms, 1024 tokens a step, adamw inside"; where models are cut,
// "2 replicas of 4 stages over 100mbit/40ms and 1gbit/5ms between stages"
std::string headline(const train::Recipe& recipe, int64_t parameters);

// One row a name (`what`: strategy or schedule); the gap is to the loss of `base`, where that is among them. What is
// not finished has dashes, and "failed" where its loss is NaN.
std::string comparison_table(const char* what, const std::string& base, const std::vector<std::string>& names,
                             const std::vector<train::Result>& results, bool colour);

bool stdout_is_terminal();
bool wants_colour();  // a terminal, and NO_COLOR is not set

// Prints a run while it happens: a live line on a terminal, plain lines now and then in a pipe (or with TERM=dumb).
// With `schedule` a run that has stages, at most 16, starts with a chart of what they do.
std::unique_ptr<train::Observer> console(bool schedule = false);
// Prints every event as a line of JSON. `strategy` is added to each, and `schedule` where schedules are compared.
std::unique_ptr<train::Observer> json_lines(std::string strategy, std::string schedule = {});

}  // namespace thinwire::cli
