// Checkpoints: everything a run needs to go on as if it had never stopped.
//
//   checkpoints/step-120/manifest.json          step, recipe and text identity; size and XXH3 of all files, itself too
//   checkpoints/step-120/all.safetensors        what all ranks hold alike
//   checkpoints/step-120/replica-0.safetensors  what replica 0 holds alone, and so on
//
// Where replicas have several stages, each stage has files of its own: stage-1.all.safetensors, and so on.
//
// Saving is a collective of five phases, each of which all ranks finish, or all ranks fail (World::together):
//
//   prepare    rank 0 makes an empty folder checkpoints/.step-120.tmp and removes what a killed run left behind
//   write      every rank writes its own file there, all at the same time; replica 0 also what all replicas hold alike.
//              Each file is flushed to disk. State does not travel: what a rank holds, it writes itself
//   manifest   16 bytes a file (size and hash) are gathered, all to all, and rank 0 broadcasts the manifest's text
//   publish    rank 0 writes the manifest, the last file, flushes the folder and renames it to step-120: one atomic
//              operation, before which a reader finds the old checkpoints, and after which the new one
//   prune      rank 0 deletes all but the newest ones; not before every rank knows that the new one is in place
//
// So a folder called step-N is always whole, whenever the machine stops; anything else in checkpoints/ is a leftover.
// Where ranks do not share a disk each of them does rank 0's part in its own folder, and has what all hold alike, its
// own file, and the same manifest. Saving costs the disk the state once (all_equal) plus once a replica, and the
// network a few kilobytes a rank.
//
// Reading checks every size and hash and treats every byte as untrusted: a damaged file is an error that names it,
// never a crash or a silent fallback to an older checkpoint. A checkpoint is read back to the bit, so a run that is
// resumed ends with the weights it would have had.
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

// Collective over the world, and blocking; `state` is only read. `run` is the run's directory, `step` >= 0 the number
// of steps done. `facts` become part of the manifest and are read back as they were; rank 0's are used. Keeps the
// newest `keep` >= 1 checkpoints and deletes older ones, after the new one is in place; saving a step again replaces
// it. If writing fails (no space), the unfinished folder is removed, older checkpoints stay, and every rank throws: the
// rank that failed its own std::system_error with path and reason, the others comm::FailedElsewhere. A lost or stuck
// rank is comm::PeerLost or comm::Timeout.
void save(const std::filesystem::path& run, int64_t step, const State& state, const nlohmann::json& facts, int64_t keep,
          const comm::World& world, const comm::MeshShape& shape);

// Restores a checkpoint that was interrupted between two renames while it was replaced (file systems without an atomic
// exchange), and removes what else an interrupted save has left. Not collective; the caller must be the only one that
// writes there.
void recover(const std::filesystem::path& run);

// The folder of a run's checkpoint of a step. It need not exist.
std::filesystem::path folder_of(const std::filesystem::path& run, int64_t step);

// The steps of a run's checkpoints by their names, ascending; and the newest, or -1. Not collective. Whether one can be
// read is known by reading it: no older one stands in for one that is damaged.
std::vector<int64_t> steps(const std::filesystem::path& run);
int64_t newest(const std::filesystem::path& run);

struct Loaded {
  State state;           // owns its memory; scopes as they were saved
  nlohmann::json facts;  // as they were given to save()
};
// Reads what a stage of a replica needs of a checkpoint folder: two files and the manifest. Not collective; every rank
// reads for itself. Throws an error that starts with the file's path: c10::Error for a manifest or file that is
// damaged or does not have this replica or stage, std::system_error for one that cannot be read.
Loaded load(const std::filesystem::path& folder, int replica, int stage = 0);
// What its manifest says, without reading the rest: whether a checkpoint fits can be told before it is loaded.
struct Manifest {
  int64_t replicas = 1, stages = 1;  // of the run that saved it
  nlohmann::json facts;
};
Manifest read_manifest(const std::filesystem::path& folder);
// Reads every file and throws such an error unless all have the size and the hash that the manifest says.
void verify(const std::filesystem::path& folder);

}  // namespace thinwire::checkpoint
