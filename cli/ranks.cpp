#include "cli/ranks.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>

#include "thinwire/base/errors.h"
#include "thinwire/base/version.h"
#include "thinwire/comm/shared_disk.h"

namespace thinwire::cli {
namespace {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

comm::Identity identity() {
  return {.host = host_name(), .build = fmt::format("thinwire {} with torch {}", thinwire::version(), TORCH_VERSION)};
}

const char* advice(comm::Launcher::Kind door) {
  return door == comm::Launcher::Kind::mpi ? "under torchrun, use `torchrun ... -m thinwire`"
                                           : "under mpirun and srun, use the program `thinwire`";
}

}  // namespace

Ranks::Ranks(const Door& door, const std::function<const char*(const char*)>& environment) : door_(door) {
  const auto found = comm::find_launchers(environment);
  if (found.empty()) return;
  const auto ours = std::ranges::find(found, door.kind, &comm::Launcher::kind);
  if (ours == found.end())
    throw BadInput("{}={} says that this is one of {} processes, which it cannot join: {}", found[0].variable,
                   found[0].size, found[0].size, advice(door.kind));
  launcher_ = *ours;
}

Ranks::~Ranks() {
  if (world_) world_->close();
}

std::string Ranks::name() const {
  return launcher_ ? fmt::format("rank {} (host {}): ", launcher_->rank, host_name()) : "";
}

comm::World& Ranks::world() {
  if (world_) return *world_;
  at::set_num_threads(1);  // what the executor computes with
  auto transport = door_.join(identity());
  if (transport->size() != launcher_->size)
    throw BadInput(
        "{}={} says that there are {} processes, but {} could be joined: was this thinwire built with the "
        "launcher's MPI?",
        launcher_->variable, launcher_->size, launcher_->size, transport->size());
  launcher_->rank = transport->rank();
  world_ = std::make_unique<comm::World>(
      comm::World{.group = comm::TransportGroup::world(std::move(transport)), .shares_disk = false});
  return *world_;
}

void Ranks::together(const std::function<void()>& work) {
  if (!launcher_) return work();
  world().together(work);
}

void Ranks::check_number(const train::Recipe& recipe) const {
  if (!launcher_ || recipe.ranks() == launcher_->size) return;
  throw BadInput(
      "the recipe asks for {} replicas x {} stages = {} ranks, but there are {} processes: set "
      "workers.replicas or workers.stages, or start as many",
      recipe.workers.replicas, recipe.workers.stages, recipe.ranks(), launcher_->size);
}

std::filesystem::path Ranks::directory(const std::filesystem::path& dir) {
  if (!launcher_ || dir.empty()) return dir;
  std::filesystem::path all = world().broadcast_bytes(std::filesystem::absolute(dir).string());
  world().shares_disk = comm::see_one_disk(world(), all);
  // Ranks of one machine need parts of their own too.
  if (!world().shares_disk && !is_rank0()) all += fmt::format(".rank-{}", launcher_->rank);
  return all;
}

bool Ranks::rank0_says(bool answer) {
  return launcher_ ? world().broadcast_bytes(answer ? "yes" : "no") == "yes" : answer;
}

std::unique_ptr<train::Observer> Ranks::observer(std::unique_ptr<train::Observer> rank0) const {
  return is_rank0() ? std::move(rank0) : std::make_unique<train::Observer>();
}

train::Result Ranks::run(const train::Recipe& recipe, const train::RunOptions& options, train::Observer& observer) {
  if (!launcher_) return train::run(recipe, options, observer);
  at::set_num_threads(static_cast<int>(recipe.train.threads));
  return train::run_rank(recipe, options, observer, world());
}

void Ranks::fail(const std::string& why) {
  if (world_) world_->group->transport()->fail(world_->rank(), why);
}

}  // namespace thinwire::cli
