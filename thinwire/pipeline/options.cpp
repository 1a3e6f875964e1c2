#include "thinwire/pipeline/options.h"

#include <cmath>

#include "thinwire/base/errors.h"
#include "thinwire/dp/steps_or_auto.h"

namespace thinwire::pipeline {

void read(const Value& value, const std::string& name, Hop& hop, const Limit& limit) {
  hop.automatic = dp::read_steps_or_auto(value, name, hop.count, limit);
}

Value to_value(const Hop& hop) { return dp::steps_or_auto(hop.automatic, hop.count); }

int64_t SyncSteps::of(int64_t planned) const {
  if (!share) return count;
  if (planned == 0 && *share > 0)
    throw BadInput(
        "pipeline.sync_steps = \"{:g}%\" is a share of steps that are not known beforehand: give a number, or the run "
        "train.steps or train.tokens instead of train.seconds",
        *share * 100);
  return std::llround(*share * static_cast<double>(planned));
}

void read(const Value& value, const std::string& name, SyncSteps& steps, const Limit& limit) {
  steps.share = dp::read_count_or_share(value, name, "steps", steps.count, limit);
}

Value to_value(const SyncSteps& steps) { return dp::count_or_share(steps.share, steps.count); }

}  // namespace thinwire::pipeline
