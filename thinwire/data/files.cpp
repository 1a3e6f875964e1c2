#include "thinwire/data/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

#include "thinwire/base/errors.h"

namespace thinwire::data {
namespace fs = std::filesystem;

std::vector<std::string> files_under(const std::string& folder, const std::string& suffix,
                                     const std::vector<std::string>& skip) {
  std::vector<std::string> paths;
  try {
    for (auto it = fs::recursive_directory_iterator(folder); it != fs::recursive_directory_iterator(); ++it) {
      const std::string name = it->path().filename().string();
      const bool hidden = name.starts_with('.');
      if (it->is_directory() && (hidden || std::ranges::find(skip, name) != skip.end())) it.disable_recursion_pending();
      std::error_code broken_link;
      if (!hidden && name.ends_with(suffix) && it->is_regular_file(broken_link)) paths.push_back(it->path().string());
    }
  } catch (const fs::filesystem_error& error) {
    throw BadInput("data.path: cannot read folder {}: {}", error.path1().empty() ? folder : error.path1().string(),
                   error.code().message());
  }
  std::ranges::sort(paths);
  return paths;
}

std::string read_all(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw BadInput("data.path: cannot read file {}: {}", path, std::strerror(errno));
  std::string bytes;
  char part[1 << 16];
  while (const size_t n = std::fread(part, 1, sizeof part, file.get())) bytes.append(part, n);
  if (std::ferror(file.get())) throw BadInput("data.path: cannot read file {}: {}", path, std::strerror(errno));
  return bytes;
}

}  // namespace thinwire::data
