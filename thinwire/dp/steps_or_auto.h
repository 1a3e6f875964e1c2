// Options that are a number of steps, or "auto".
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/base/options.h"

namespace thinwire::dp {

// Whether the value is "auto"; if not, `steps` is the number it says. BadInput that starts with `name` otherwise.
bool read_steps_or_auto(const Value& value, const std::string& name, int64_t& steps, const Limit& limit);
Value steps_or_auto(bool automatic, int64_t steps);

}  // namespace thinwire::dp
