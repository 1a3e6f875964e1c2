#include "thinwire/train/run_directory.h"

#include "thinwire/base/atomic_file.h"
#include "thinwire/base/errors.h"

namespace thinwire::train {
namespace fs = std::filesystem;
namespace {

// Whether there is nothing in a folder but the lock.
bool is_free(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != "lock") return false;
  return true;
}

}  // namespace

RunDirectory::RunDirectory(fs::path path, bool resume) : path_(std::move(path)), resume_(resume) {
  if (path_.empty() || !fs::exists(fs::symlink_status(path_))) return;
  if (!fs::is_directory(path_)) throw BadInput("{} is not a directory", path_.string());
  if (is_free(path_) || resume_) lock_.emplace(path_);
  check();
}

void RunDirectory::check() const {
  if (lock_) remove_leftovers(path_ / "recipe.toml");  // of a run that was killed at its very start
  if (is_free(path_)) return;
  if (!resume_)
    throw BadInput("{} exists and is not empty: choose another --dir, or go on with it by --resume", path_.string());
  if (!fs::exists(path_ / "recipe.toml"))
    throw BadInput("{} holds no run: there is no recipe.toml in it", path_.string());
}

std::optional<Recipe> RunDirectory::stored() const {
  const fs::path stored = path_ / "recipe.toml";
  if (path_.empty() || !fs::exists(stored)) return {};
  return make_recipe(read_recipe(stored));
}

void RunDirectory::prepare(const Recipe& recipe) {
  if (path_.empty()) return;
  if (!lock_) {  // it was not there; another run may have made it meanwhile
    create_folders(path_);
    lock_.emplace(path_);
    check();
  }
  const fs::path place = path_ / "recipe.toml";
  if (const auto before = stored()) {
    if (auto difference = first_difference(*before, recipe, Keys::that_decide_weights))
      throw BadInput("{} was started with another recipe: {}", path_.string(), *difference);
    for (const char* name :
         {"metrics.jsonl", "model.safetensors", "result.json", "timeline.json", "pipeline.json", "report.html"})
      remove_leftovers(path_ / name);
    if (!first_difference(*before, recipe)) return;
  }
  write_file(place, {to_toml(recipe)});
}

std::string RunDirectory::note() const {
  if (!lock_ || lock_->left_by().empty()) return "";
  return fmt::format("the run in {} was cut off ({}): it is taken over", path_.string(), lock_->left_by());
}

}  // namespace thinwire::train
