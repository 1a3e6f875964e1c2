// The folder of a run: free, or holding a run to go on with, and this run's alone while it lasts.
//
//   recipe.toml      the complete recipe
//   metrics.jsonl    a line a step and evaluation
//   checkpoints/     thinwire/checkpoint
//   model.safetensors, result.json, timeline.json, report.html    when it is finished
//   lock             while it runs: who does
#pragma once

#include <optional>

#include "thinwire/base/folder_lock.h"
#include "thinwire/train/recipe.h"

namespace thinwire::train {

class RunDirectory {
 public:
  // Nothing is written where it can not go well, nor before prepare() where there is no such folder yet. An empty path:
  // nothing is kept, and all of this does nothing. BadInput where there is something else, another run's files and not
  // `resume`, or another run under way.
  RunDirectory(std::filesystem::path path, bool resume);

  // The recipe of the run that is there; none where there is none.
  std::optional<Recipe> stored() const;
  // Makes it this run's: folder and recipe. Of what is there only keys that decide no weight are overwritten; BadInput
  // where others differ.
  void prepare(const Recipe& recipe);
  // "its last run (process 12 on b) was killed: ..."; empty where there is nothing to say.
  std::string note() const;

 private:
  void check() const;

  const std::filesystem::path path_;
  const bool resume_;
  std::optional<FolderLock> lock_;
};

}  // namespace thinwire::train
