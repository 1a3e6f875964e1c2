#include "thinwire/train/resume.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "thinwire/base/errors.h"

namespace thinwire::train {
namespace {

int64_t own_step(const RunOptions& options) {
  checkpoint::recover(options.dir);
  if (!options.step) return checkpoint::newest(options.dir);
  const auto steps = checkpoint::steps(options.dir);
  if (std::ranges::find(steps, *options.step) != steps.end()) return *options.step;
  throw BadInput("{} has no checkpoint step-{}: it has {}{}", options.dir.string(), *options.step,
                 steps.empty() ? "none" : "step-", fmt::join(steps, ", step-"));
}

}  // namespace

int64_t step_to_resume(const RunOptions& options, const comm::World& world) {
  if (!options.resume || options.dir.empty()) return -1;
  int64_t found = -1;
  world.together([&] {
    if (world.is_rank0() || !world.shares_disk) found = own_step(options);
  });
  const at::Tensor own = at::full({1}, found, at::kLong);
  if (world.shares_disk) {
    world.group->broadcast_(own, 0, comm::TrafficKind::control)->wait();
    return own.item<int64_t>();
  }
  const at::Tensor all = at::empty({world.size()}, at::kLong);
  world.group->all_gather(all, own, comm::TrafficKind::control)->wait();
  const auto* steps = all.const_data_ptr<int64_t>();
  const auto [least, most] = std::minmax_element(steps, steps + world.size());
  if (*least < 0 && *most >= 0)
    throw BadInput("rank {} has no checkpoint in its {}, others have one of step {}: bring it there, or start anew",
                   least - steps, options.dir.string(), *most);
  return *least;
}

checkpoint::Loaded read_checkpoint(const std::filesystem::path& run, int64_t step, const comm::Coordinates& at) {
  const auto read = [&](int64_t of) { return checkpoint::load(checkpoint::folder_of(run, of), at.replica, at.stage); };
  try {
    return read(step);
  } catch (const std::exception& error) {
    auto older = checkpoint::steps(run);
    std::erase_if(older, [&](int64_t other) { return other >= step; });
    for (; !older.empty(); older.pop_back()) {
      try {
        read(older.back());
      } catch (const std::exception&) {
        continue;
      }
      throw std::runtime_error(
          fmt::format("{}; the checkpoint before it is whole: go on from there with --resume=step-{}", one_line(error),
                      older.back()));
    }
    throw std::runtime_error(fmt::format("{}; there is no older checkpoint that could be read", one_line(error)));
  }
}

}  // namespace thinwire::train
