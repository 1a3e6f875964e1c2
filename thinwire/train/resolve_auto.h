// Options that say "auto", made numbers before a run starts, so that its recipe says all it did.
#pragma once

#include <string>
#include <vector>

#include "thinwire/comm/world.h"
#include "thinwire/train/run.h"

namespace thinwire::train {

struct Resolved {
  Recipe recipe;
  std::vector<std::string> notes;  // what was measured and chosen, a line each
};

// strategy.delay: a few steps are trained over the recipe's own link with every slice waited for, and thrown away. The
// delay is the smallest number of steps whose computing takes as long as a slice's exchange did, and a quarter more. It
// is tried, too: a note says so where slices would queue up, because the link is too thin for them at any delay.
//
// pipeline.cut = "measured": forward and backward of every unit are timed. pipeline.hop = "auto": a few steps are
// trained with hop 1 for the time of a stage, and an activation is sent to and fro for the time of a transfer; the hop
// is the first that would reach a utilisation of 98 % with transfers a quarter longer than that.
//
// pipeline.sync_steps: a share becomes a number.
//
// Collective: all ranks measure, rank 0 decides, all return the same recipe.
Resolved resolve_auto(const Recipe& recipe, const RunOptions& options, comm::World& world);

// A run that is resumed keeps what it was started with.
void keep_resolved(Recipe& recipe, const Recipe& before);

}  // namespace thinwire::train
