#include "thinwire/base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "thinwire/base/descriptor.h"

namespace thinwire {
namespace {

// To the end of the file, whatever its size seems to be: it may grow meanwhile, and files of /proc say 0.
std::string read_all(const std::filesystem::path& path, int64_t most_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), path);  // a pipe should not hold us up
  struct stat about;
  if (::fstat(file, &about) != 0) throw_errno(path);
  if (!S_ISREG(about.st_mode)) throw Unreadable(path, "not a plain file");
  const auto check_size = [&](int64_t size) {
    if (size > most_bytes)
      throw Unreadable(path, std::to_string(size) + " bytes, the most allowed is " + std::to_string(most_bytes));
  };
  check_size(about.st_size);
  // One more, to see the end; and never few: a number of /proc/sys comes in one read, or is cut off.
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

}  // namespace

std::string read_file(const std::filesystem::path& path, int64_t most_bytes) {
  try {
    return read_all(path, most_bytes);
  } catch (const std::system_error& error) {
    throw Unreadable(path, error.code().message());
  }
}

std::string read_file_if_any(const std::filesystem::path& path) {
  try {
    return read_file(path);
  } catch (const Unreadable&) {
    return "";
  }
}

}  // namespace thinwire
