#include "thinwire/pipeline/options.h"

#include "thinwire/dp/steps_or_auto.h"

namespace thinwire::pipeline {

void read(const Value& value, const std::string& name, Hop& hop, const Limit& limit) {
  hop.automatic = dp::read_steps_or_auto(value, name, hop.count, limit);
}

Value to_value(const Hop& hop) { return dp::steps_or_auto(hop.automatic, hop.count); }

}  // namespace thinwire::pipeline
