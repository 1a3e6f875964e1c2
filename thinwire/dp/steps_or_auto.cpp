#include "thinwire/dp/steps_or_auto.h"

#include "thinwire/base/errors.h"

namespace thinwire::dp {

bool read_steps_or_auto(const Value& value, const std::string& name, int64_t& steps, const Limit& limit) {
  const auto* text = std::get_if<std::string>(&value);
  if (text && *text != "auto") throw BadInput("{} must be a number of steps or \"auto\", got \"{}\"", name, *text);
  steps = 0;
  if (!text) read(value, name, steps, limit);
  return text != nullptr;
}

Value steps_or_auto(bool automatic, int64_t steps) {
  if (automatic) return std::string("auto");
  return steps;
}

}  // namespace thinwire::dp
