#include "thinwire/base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "thinwire/base/descriptor.h"

namespace thinwire {
namespace {

int64_t memory() { return int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE); }

void check_plain(const std::filesystem::path& path, const struct stat& about) {
  if (S_ISLNK(about.st_mode)) throw Unreadable(path, "a link, and links are not followed here");
  if (!S_ISREG(about.st_mode)) throw Unreadable(path, "not a plain file");
}

// To the end of the file, whatever its size seems to be: it may grow meanwhile, and files of /proc say 0.
std::string read_all(const std::filesystem::path& path, int64_t most_bytes, int nofollow) {
  most_bytes = std::min(most_bytes, memory());
  struct stat about;
  // Looked at before it is opened, which alone can do things to a device; and again, since it may be another by then.
  if (::fstatat(AT_FDCWD, path.c_str(), &about, nofollow ? AT_SYMLINK_NOFOLLOW : 0) != 0) throw_errno(path);
  check_plain(path, about);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | nofollow), path);
  if (::fstat(file, &about) != 0) throw_errno(path);
  check_plain(path, about);
  const auto check_size = [&](int64_t size) {
    if (size > most_bytes)
      throw Unreadable(path, std::to_string(size) + " bytes, the most allowed is " + std::to_string(most_bytes));
  };
  check_size(about.st_size);
  // One more, to see the end; and files of /proc/sys give all they have to the first read or nothing more.
  std::string bytes(std::max<size_t>(static_cast<size_t>(about.st_size) + 1, 4096), '\0');
  for (size_t at = 0;;) {
    if (at == bytes.size()) bytes.resize(2 * at);
    const ssize_t n = ::read(file, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(path);
    at += static_cast<size_t>(n);
    check_size(static_cast<int64_t>(at));
    if (n > 0) continue;
    bytes.resize(at);
    return bytes;
  }
}

std::string read(const std::filesystem::path& path, int64_t most_bytes, int nofollow) {
  try {
    return read_all(path, most_bytes, nofollow);
  } catch (const std::system_error& error) {
    throw Unreadable(path, error.code().message());
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path, int64_t most_bytes) { return read(path, most_bytes, 0); }

std::string read_file_in(const std::filesystem::path& folder, const std::string& name, int64_t most_bytes) {
  if (name.empty() || name == "." || name == ".." || name.find_first_of(std::string_view("/\0", 2)) != name.npos)
    throw Unreadable(folder, "'" + name + "' is not the name of a file in it");
  return read(folder / name, most_bytes, O_NOFOLLOW);
}

std::string read_file_if_any(const std::filesystem::path& path) {
  try {
    return read_file(path);
  } catch (const Unreadable&) {
    return "";
  }
}

}  // namespace thinwire
