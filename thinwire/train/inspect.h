// What a run directory or a checkpoint folder holds: its recipe, its weights, how far it got, and whether it is whole.
//
// A path with recipe.toml in it is a run, one with manifest.json a checkpoint. Anything else is BadInput that says what
// is there instead. Nothing is written.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/models/model.h"
#include "thinwire/train/recipe.h"

namespace thinwire::train {

// A model with the weights that were trained: those of model.safetensors, which a finished run has, or the agreed ones
// of a checkpoint (of the newest where `path` is an unfinished run). BadInput if there are no weights yet; a file that
// does not have the hash that was written down for it is an error that starts with its path.
struct Trained {
  Recipe recipe;
  std::unique_ptr<models::Model> model;
  std::filesystem::path from;  // the file or checkpoint folder
  bool finished = false;       // false: of a checkpoint, the run may go on
  std::string weights_hash;
};
Trained load_trained(const std::filesystem::path& path);
// Of a checkpoint of which only what replica 0 holds is read and verified: for ranks that all do so.
Trained load_agreed(const std::filesystem::path& folder);

struct CheckpointFacts {
  std::filesystem::path folder;
  int64_t step = 0, files = 0, bytes = 0;
  double age_s = 0;
  std::string damage;  // empty: every file was read and has the size and hash that the manifest says
  std::optional<Recipe> recipe;
  std::map<std::string, std::string> entries;  // name -> "float32 [1024], all replicas alike"
};
// Reads every byte of it. Throws only where there is no checkpoint at all.
CheckpointFacts inspect_checkpoint(const std::filesystem::path& folder);

struct RunFacts {
  std::filesystem::path dir;
  Recipe recipe;
  int64_t parameters = 0;
  int64_t steps = 0, planned_steps = 0;      // done; planned, 0 if the clock decides
  double seconds = 0;                        // of training so far
  std::optional<double> loss, val_loss;      // the last ones
  bool finished = false;                     // has model.safetensors
  std::string weights_hash;                  // of model.safetensors
  std::string damage;                        // of model.safetensors; empty: whole, or not there
  std::vector<CheckpointFacts> checkpoints;  // oldest first
};
// Reads every byte of its checkpoints and weights, so it takes a while; damage of those is reported, not thrown.
RunFacts inspect_run(const std::filesystem::path& dir);

// What a checkpoint's manifest has; the rest of it is not read.
Recipe recipe_of_checkpoint(const std::filesystem::path& folder);
int64_t step_of_checkpoint(const std::filesystem::path& folder);
bool is_checkpoint(const std::filesystem::path& path);
// BadInput unless `path` is a run or a checkpoint.
void check_is_run_or_checkpoint(const std::filesystem::path& path);

}  // namespace thinwire::train
