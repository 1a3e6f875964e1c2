#include "thinwire/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "thinwire/base/errors.h"
#include "thinwire/base/printable.h"

namespace thinwire {
namespace {

constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;

std::string holder_in(int file) {
  char text[200];
  const ssize_t n = ::pread(file, text, sizeof text, 0);
  std::string holder(text, n > 0 ? static_cast<size_t>(n) : 0);
  return printable(holder.substr(0, holder.find('\n')));
}

std::string self() {
  char host[256] = "unknown";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {}", ::getpid(), host);
}

// Whether the file that was opened still has that name: one who ended may have removed it meanwhile.
bool is_at(int file, const std::filesystem::path& path) {
  struct stat opened, named;
  return ::fstat(file, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) : path_(folder / "lock") {
  for (;;) {
    Descriptor file(::open(path_.c_str(), kFlags, 0666), path_);
    struct stat about;
    if (::fstat(file, &about) != 0) throw_errno(path_);
    if (!S_ISREG(about.st_mode)) throw BadInput("{} is not a plain file", path_.string());
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return;  // no locks here
      const std::string holder = holder_in(file);
      throw BadInput("{} is in use by {}: wait for it, stop it, or choose another directory", folder.string(),
                     holder.empty() ? "another process" : holder);
    }
    if (!is_at(file, path_)) continue;
    left_by_ = holder_in(file);
    const std::string own = self() + "\n";
    // A full disk does not matter here: the lock is held.
    if (::ftruncate(file, 0) == 0) [[maybe_unused]]
      const auto written = ::pwrite(file, own.data(), own.size(), 0);
    file_.emplace(std::move(file));
    return;
  }
}

FolderLock::~FolderLock() {
  if (file_) ::unlink(path_.c_str());
}

}  // namespace thinwire
