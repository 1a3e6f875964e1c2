#include "thinwire/comm/shared_disk.h"

#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <sstream>

namespace thinwire::comm {
namespace fs = std::filesystem;

bool see_one_disk(const World& world, const fs::path& path) {
  fs::path file;
  std::string words;
  if (world.is_rank0()) {
    std::error_code ignored;
    fs::path folder = fs::absolute(path).parent_path();
    while (folder.has_relative_path() && !fs::is_directory(folder, ignored)) folder = folder.parent_path();
    std::random_device random;
    words = fmt::format("{:08x}{:08x}-{}", random(), random(), ::getpid());
    file = folder / (".thinwire-" + words);
    std::ofstream(file) << words << std::flush;
  }
  const std::string told = world.broadcast_bytes(file.string() + "\n" + words);
  const size_t line = told.rfind('\n');
  std::ostringstream found;
  found << std::ifstream(told.substr(0, line)).rdbuf();
  const at::Tensor missing = at::full({1}, found.str() == told.substr(line + 1) ? 0 : 1, at::kLong);
  world.group->all_reduce_(missing, Reduce::max, TrafficKind::control)->wait();
  std::error_code ignored;
  if (world.is_rank0()) fs::remove(file, ignored);
  return missing.item<int64_t>() == 0;
}

}  // namespace thinwire::comm
