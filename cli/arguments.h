// What train and compare have in common: a recipe, keys that override it, a directory.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "thinwire/train/recipe.h"
#include "thinwire/train/run.h"

namespace thinwire::cli {

struct Arguments {
  std::string recipe;
  std::vector<std::string> keys;
  std::string dir;
  bool json = false;
  bool quiet = false;

  void add_to(CLI::App& verb);
  train::RecipeText text() const;                      // the recipe with the keys applied
  std::string command(const std::string& verb) const;  // as a person would type it
  // As --json and --quiet ask; `schedule` as for console().
  std::unique_ptr<train::Observer> observer(const std::string& strategy, bool schedule = false,
                                            const std::string& compared_schedule = {}) const;
  // --dir, or runs/NAME-DATE-TIME, which no other run gets: it is made if `claim`.
  std::filesystem::path directory(const std::string& name, bool claim) const;
};

// A folder that is removed at the end if nothing was put there: of a run that was refused.
class RemovedIfEmpty {
 public:
  explicit RemovedIfEmpty(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~RemovedIfEmpty() {
    std::error_code not_empty;
    if (!folder_.empty()) std::filesystem::remove(folder_, not_empty);
  }
  RemovedIfEmpty(const RemovedIfEmpty&) = delete;
  RemovedIfEmpty& operator=(const RemovedIfEmpty&) = delete;

 private:
  const std::filesystem::path folder_;
};

}  // namespace thinwire::cli
