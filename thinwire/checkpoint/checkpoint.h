// Checkpoints: everything a run needs to go on as if it had never stopped.
//
//   checkpoints/step-120/manifest.json          step, recipe and text identity; size and XXH3 of all files, itself too
//   checkpoints/step-120/all.safetensors        what all ranks hold alike
//   checkpoints/step-120/replica-0.safetensors  what replica 0 holds alone, and so on
//
// Where replicas are cut into stages, each stage has files of its own: stage-1.all.safetensors, and so on.
//
// A checkpoint is written aside (checkpoints/.step-120.tmp), flushed to disk and renamed, so a folder called step-N is
// always whole; whatever else is found there is a leftover and is removed by the next save. Reading checks every hash
// and treats every byte as untrusted: a damaged file is an error that names it, never a crash or a silent fallback.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/base/state.h"
#include "thinwire/comm/coordinates.h"
#include "thinwire/comm/world.h"

namespace thinwire::checkpoint {

// Collective over the world. `facts` become part of the manifest and are read back as they were; rank 0's count. Where
// ranks do not share a disk each has all of this under its own `run`: what all hold alike, its own part, and the
// manifest of everybody's. Keeps the newest `keep` checkpoints and deletes older ones, after the new one is
// in place. If writing fails (no space), the unfinished folder is removed, older checkpoints stay, and every rank
// throws.
void save(const std::filesystem::path& run, int64_t step, const State& state, const nlohmann::json& facts, int64_t keep,
          const comm::World& world, const comm::MeshShape& shape);

// Puts back a checkpoint whose re-saving was cut short between two renames. Not collective; by whoever may write there.
void recover(const std::filesystem::path& run);

// Where a run's checkpoint of a step is.
std::filesystem::path folder_of(const std::filesystem::path& run, int64_t step);

// The step of the newest checkpoint of a run, or -1.
int64_t newest(const std::filesystem::path& run);

struct Loaded {
  State state;
  nlohmann::json facts;
};
// Reads what a stage of a replica needs of a checkpoint folder. Not collective. Throws an error that starts with the
// file's path.
Loaded load(const std::filesystem::path& folder, int replica, int stage = 0);
// What its manifest says, without reading the rest.
struct Manifest {
  int64_t replicas = 1, stages = 1;
  nlohmann::json facts;
};
Manifest read_manifest(const std::filesystem::path& folder);
// Reads every file and throws such an error unless all have the size and the hash that the manifest says.
void verify(const std::filesystem::path& folder);

}  // namespace thinwire::checkpoint
