#include "thinwire/base/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "thinwire/base/errors.h"

namespace thinwire {
namespace {

constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;  // a pipe should not hold us up

}  // namespace

AppendFile::AppendFile(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), kFlags, 0666), path) {
  struct stat about;
  if (::fstat(file_, &about) != 0) throw_errno(path);
  if (!S_ISREG(about.st_mode)) throw BadInput("{} is not a plain file", path.string());
}

void AppendFile::write_line(const std::string& line) {
  struct stat before;
  if (::fstat(file_, &before) != 0) throw_errno(path_);
  try {
    write_all(file_, line + "\n", path_);
  } catch (const std::system_error&) {
    [[maybe_unused]] const int cut = ::ftruncate(file_, before.st_size);  // readers skip half a line, too
    throw;
  }
}

void AppendFile::sync() {
  if (::fsync(file_) != 0) throw_errno(path_);
}

}  // namespace thinwire
