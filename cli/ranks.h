// The ranks of a run, as the verbs see them: threads of this process, or processes of which this is one.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "thinwire/comm/identity.h"
#include "thinwire/comm/launcher.h"
#include "thinwire/train/run.h"

namespace thinwire::cli {

// How a process that a launcher has started joins the others: by MPI for the program, by torch.distributed for the
// Python module.
struct Door {
  comm::Launcher::Kind kind;
  // Collective; called once, by the first verb that needs the others.
  std::function<comm::TransportPtr(const comm::Identity&)> join;
  std::string about = {};  // what it is made of: "Open MPI v4.1.4"; empty: nothing, it is shut
};

class Ranks {
 public:
  // BadInput where several processes were started by a launcher that this door does not lead to: each of them would
  // train alone.
  Ranks(const Door& door, const std::function<const char*(const char*)>& environment);
  ~Ranks();

  const Door& door() const { return door_; }
  // Where there is no launcher, this process is rank 0.
  bool is_rank0() const { return !launcher_ || launcher_->rank == 0; }
  // Whether the others are there; else all ranks have done, and seen, the same.
  bool joined() const { return world_ != nullptr; }
  // "rank 3 (host b): " where ranks are processes.
  std::string name() const;

  // Collective where ranks are processes, from here on. As World::together.
  void together(const std::function<void()>& work);
  // BadInput where there are more or fewer processes than the recipe asks for. Not collective.
  void check_number(const train::Recipe& recipe) const;
  // Where this rank keeps its part of a run for which rank 0 has chosen `dir`: the same where all see one disk.
  std::filesystem::path directory(const std::filesystem::path& dir);
  // Rank 0's answer, on all.
  bool rank0_says(bool answer);
  // Rank 0 shows what goes on; on the others nothing is shown.
  std::unique_ptr<train::Observer> observer(std::unique_ptr<train::Observer> rank0) const;
  train::Result run(const train::Recipe& recipe, const train::RunOptions& options, train::Observer& observer);
  // This rank is not going on: the others are told.
  void fail(const std::string& why);

 private:
  comm::World& world();  // joins

  const Door door_;
  std::optional<comm::Launcher> launcher_;
  std::unique_ptr<comm::World> world_;
};

}  // namespace thinwire::cli
