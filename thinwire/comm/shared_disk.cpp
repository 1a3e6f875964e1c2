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
  std::string content;
  if (world.is_rank0()) {
    std::error_code ignored;
    fs::path folder = fs::absolute(path).parent_path();
    while (folder.has_relative_path() && !fs::is_directory(folder, ignored)) folder = folder.parent_path();
    std::random_device random;
    content = fmt::format("{:08x}{:08x}-{}", random(), random(), ::getpid());
    file = folder / (".thinwire-" + content);
    std::ofstream(file) << content << std::flush;
  }
  const std::string message = world.broadcast_bytes(file.string() + "\n" + content);
  const size_t line = message.rfind('\n');
  std::ostringstream found;
  found << std::ifstream(message.substr(0, line)).rdbuf();
  const at::Tensor missing = at::full({1}, found.str() == message.substr(line + 1) ? 0 : 1, at::kLong);
  world.group->all_reduce_(missing, Reduce::max, TrafficKind::control)->wait();
  std::error_code ignored;
  if (world.is_rank0()) fs::remove(file, ignored);
  return missing.item<int64_t>() == 0;
}

}  // namespace thinwire::comm
