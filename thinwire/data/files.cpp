#include "thinwire/data/files.h"

#include <algorithm>
#include <filesystem>

#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"

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

std::string read_text(const std::string& path) {
  try {
    return read_file(path);
  } catch (const Unreadable& error) {
    throw BadInput("data.path: cannot read file {}: {}", path, error.reason);
  }
}

}  // namespace thinwire::data
