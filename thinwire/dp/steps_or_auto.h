// Options that are a number of steps, or "auto"; or a number of steps, or a share of all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "thinwire/base/options.h"

namespace thinwire::dp {

// Whether the value is "auto"; if not, `steps` is the number it says. BadInput that starts with `name` otherwise.
bool read_steps_or_auto(const Value& value, const std::string& name, int64_t& steps, const Limit& limit);
Value steps_or_auto(bool automatic, int64_t steps);

// The share that the value says, "5%" being .05; nothing if it is a number, which `count` is then. BadInput that starts
// with `name` otherwise; `what` is counted: "steps".
std::optional<double> read_count_or_share(const Value& value, const std::string& name, const char* what, int64_t& count,
                                          const Limit& limit);
Value count_or_share(const std::optional<double>& share, int64_t count);

}  // namespace thinwire::dp
