#include "thinwire/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "thinwire/base/descriptor.h"
#include "thinwire/base/errors.h"

namespace thinwire {
namespace fs = std::filesystem;
namespace {

// What is there instead of a plain file; nullptr where there is one, or nothing.
const char* obstacle(int folder, const char* name) {
  struct stat about;
  if (::fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) != 0) return nullptr;
  switch (about.st_mode & S_IFMT) {
    case S_IFREG:
      return nullptr;
    case S_IFDIR:
      return "a folder";
    case S_IFLNK:
      return "a link";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    default:
      return "a device";
  }
}

void flush_folder(const Descriptor& folder, const fs::path& path) {
  if (::fsync(folder) != 0 && errno != EINVAL) throw_errno(path);  // EINVAL: a file system whose folders need none
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

Descriptor open_folder(const fs::path& folder, const fs::path& asked) {
  return {::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), asked};
}

// What the names of its temporaries begin with: cut, for names have an end. After it come process, number and ".tmp".
std::string stem_of(const fs::path& path) { return "." + path.filename().string().substr(0, 200) + "."; }

// A new file under a name of its own; one that exists stays: another process may be writing it.
Descriptor create(int folder, const fs::path& path, std::string& name) {
  for (int attempt = 0;; ++attempt) {
    name = fmt::format("{}{}-{}.tmp", stem_of(path), ::getpid(), attempt);
    const int file = ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST || attempt == 1000) return {file, path};
  }
}

}  // namespace

Written write_file(const fs::path& path, const std::vector<std::string_view>& parts) {
  const Descriptor folder = open_folder(folder_of(path), path);
  const std::string name = path.filename().string();
  if (const char* what = obstacle(folder, name.c_str()))
    throw BadInput("{} is {}: only a plain file is replaced", path.string(), what);

  std::string aside;
  Descriptor file = create(folder, path, aside);
  Written written;
  try {
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), &XXH3_freeState);
    XXH3_64bits_reset(hash.get());
    for (std::string_view part : parts) {
      XXH3_64bits_update(hash.get(), part.data(), part.size());
      write_all(file, part, path);
      written.bytes += static_cast<int64_t>(part.size());
    }
    written.xxh3 = XXH3_64bits_digest(hash.get());
    if (::fsync(file) != 0) throw_errno(path);
    file.close(path);
    if (::renameat(folder, aside.c_str(), folder, name.c_str()) != 0) throw_errno(path);
  } catch (...) {
    ::unlinkat(folder, aside.c_str(), 0);
    throw;
  }
  flush_folder(folder, path);
  return written;
}

void remove_leftovers(const fs::path& path) {
  constexpr std::string_view kEnd = ".tmp";
  const std::string stem = stem_of(path);
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_of(path), none)) {
    const std::string name = entry.path().filename().string();
    if (name.size() <= stem.size() + kEnd.size() || !name.starts_with(stem) || !name.ends_with(kEnd)) continue;
    const auto middle = name.substr(stem.size(), name.size() - stem.size() - kEnd.size());
    if (middle.find_first_not_of("0123456789-") == std::string::npos) fs::remove(entry.path());
  }
}

void create_folders(const fs::path& folder) {
  if (folder.empty() || fs::is_directory(folder)) return;
  create_folders(folder.parent_path());
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) throw_errno(folder);
  if (!fs::is_directory(folder)) throw BadInput("{} is not a directory", folder.string());
  sync_folder(folder_of(folder));
}

void sync_folder(const fs::path& folder) { flush_folder(open_folder(folder, folder), folder); }

}  // namespace thinwire
