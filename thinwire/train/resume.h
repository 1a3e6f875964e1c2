// Which checkpoint a run goes on from, and what a rank finds in it.
#pragma once

#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/comm/world.h"
#include "thinwire/train/run.h"

namespace thinwire::train {

// The step that options ask for, or the newest of which every rank has a checkpoint; -1 if there is none, or the run is
// not to be resumed. Collective; the same on all ranks. BadInput where the one that was asked for is not there, or
// where some ranks have a checkpoint and others, on disks of their own, have not.
int64_t step_to_resume(const RunOptions& options, const comm::World& world);

// This rank's part of the checkpoint of a step. If it cannot be read, an error that names an older one which can: which
// one to go on from is for a person to say. Not collective.
checkpoint::Loaded read_checkpoint(const std::filesystem::path& run, int64_t step, const comm::Coordinates& at);

}  // namespace thinwire::train
