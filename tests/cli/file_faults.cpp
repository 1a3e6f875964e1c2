// Stands between the program and the file system (LD_PRELOAD): writes down every call that changes a file under one
// folder, and can make one of them fail, or kill the process instead of it. For durability_test.py.
//
//   FAULTS_UNDER   the folder; nothing else is looked at
//   FAULTS_LOG     where the calls go, a line of JSON each, in the order they were made; none: not written down
//   FAULTS_AT      the number of the call, from 1, that is disturbed; none: none is
//   FAULTS_ERROR   the errno that it and, with FAULTS_FOREVER, all later ones that need space fail with; none: SIGKILL
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>

namespace {

std::recursive_mutex mutex;  // one call at a time: the log's order is the order of what happened
long count = 0;
long flushes = 0;

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

template <class F>
F* real(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

std::string resolved(int folder, const char* path) {
  if (path[0] == '/') return path;
  char base[PATH_MAX] = {};
  const std::string link = folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(folder);
  [[maybe_unused]] const auto n = ::readlink(link.c_str(), base, sizeof base - 1);
  return std::string(base) + "/" + path;
}

std::string path_of(int file) {
  char path[PATH_MAX] = {};
  [[maybe_unused]] const auto n = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof path - 1);
  return path;
}

bool watched(const std::string& path) {
  const std::string under = setting("FAULTS_UNDER");
  return !under.empty() && (path == under || path.starts_with(under + "/"));
}

void log(const std::string& line) {
  const char* path = setting("FAULTS_LOG");
  if (!*path) return;
  static const int file =
      real<int(const char*, int, ...)>("open")(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const std::string text = line + "\n";
  [[maybe_unused]] const auto n = real<ssize_t(int, const void*, size_t)>("write")(file, text.data(), text.size());
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }  // our own names need no escapes

// Whether the call is to be made; else it has failed with errno, or there is nobody left to ask.
bool passes(bool needs_space) {
  ++count;
  const char* at = setting("FAULTS_AT");
  if (!*at) return true;
  const long disturbed = std::atol(at);
  const char* error = setting("FAULTS_ERROR");
  if (!*error && count == disturbed) ::kill(::getpid(), SIGKILL);
  if (!*error || count < disturbed || (count > disturbed && !*setting("FAULTS_FOREVER"))) return true;
  if (count > disturbed && !needs_space) return true;
  errno = std::atoi(error);
  return false;
}

std::string hex(const void* data, size_t size) {
  static const char* digits = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < size; ++i) {
    const auto byte = static_cast<const unsigned char*>(data)[i];
    text += digits[byte >> 4], text += digits[byte & 15];
  }
  return text;
}

// Makes a call that changes `path`, and writes it down if it went well.
template <class Call>
auto change(const std::string& path, const char* name, const std::string& more, bool needs_space, const Call& call) {
  std::lock_guard lock(mutex);
  if (!watched(path)) return call();
  if (!passes(needs_space)) return decltype(call())(-1);
  const auto result = call();
  const int error = errno;
  if (result >= 0) log("{\"call\": " + quoted(name) + ", \"path\": " + quoted(path) + more + "}");
  errno = error;
  return result;
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  const auto call = [&] { return real<int(int, const char*, int, ...)>("openat")(folder, path, flags, mode); };
  if (!(flags & O_CREAT)) return call();
  const std::string whole = resolved(folder, path);
  struct stat about;
  if (::lstat(whole.c_str(), &about) == 0 && !(flags & O_TRUNC)) return call();
  return change(whole, "create", "", true, call);
}

int rename_at(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  const std::string a = resolved(from_folder, from), b = resolved(to_folder, to);
  return change(b, flags & RENAME_EXCHANGE ? "exchange" : "rename", ", \"from\": " + quoted(a), false, [&] {
    return real<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from, to_folder, to,
                                                                                flags);
  });
}

int unlink_at(int folder, const char* path, int flags) {
  const std::string whole = resolved(folder, path);
  return change(whole, flags & AT_REMOVEDIR ? "rmdir" : "unlink", "", false,
                [&] { return real<int(int, const char*, int)>("unlinkat")(folder, path, flags); });
}

mode_t mode_in(int flags, va_list list) { return flags & O_CREAT ? va_arg(list, mode_t) : 0; }

}  // namespace

extern "C" {

#define OPEN(name)                               \
  int name(const char* path, int flags, ...) {   \
    va_list list;                                \
    va_start(list, flags);                       \
    const mode_t mode = mode_in(flags, list);    \
    va_end(list);                                \
    return open_at(AT_FDCWD, path, flags, mode); \
  }
OPEN(open)
OPEN(open64)
#define OPENAT(name)                                       \
  int name(int folder, const char* path, int flags, ...) { \
    va_list list;                                          \
    va_start(list, flags);                                 \
    const mode_t mode = mode_in(flags, list);              \
    va_end(list);                                          \
    return open_at(folder, path, flags, mode);             \
  }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void* data, size_t size) {
  const auto call = [&] { return real<ssize_t(int, const void*, size_t)>("write")(file, data, size); };
  const std::string path = path_of(file);
  if (!watched(path)) return call();
  return change(path, "write", *setting("FAULTS_LOG") ? ", \"data\": " + quoted(hex(data, size)) : "", true, call);
}

int ftruncate(int file, off_t size) {
  return change(path_of(file), "truncate", ", \"size\": " + std::to_string(size), false,
                [&] { return real<int(int, off_t)>("ftruncate")(file, size); });
}

int fsync(int file) {
  return change(path_of(file), "fsync", "", true, [&] { return real<int(int)>("fsync")(file); });
}

int rename(const char* from, const char* to) { return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  return rename_at(from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return rename_at(from_folder, from, to_folder, to, flags);
}

int unlink(const char* path) { return unlink_at(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char* path, int flags) { return unlink_at(folder, path, flags); }
int rmdir(const char* path) { return unlink_at(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char* path) {
  struct stat about;
  return unlink_at(AT_FDCWD, path, ::lstat(path, &about) == 0 && S_ISDIR(about.st_mode) ? AT_REMOVEDIR : 0);
}

int mkdir(const char* path, mode_t mode) {
  return change(resolved(AT_FDCWD, path), "mkdir", "", true,
                [&] { return real<int(const char*, mode_t)>("mkdir")(path, mode); });
}

// What the program has said by then is what a person relies on.
int fflush(FILE* stream) {
  std::lock_guard lock(mutex);
  const int result = real<int(FILE*)>("fflush")(stream);
  if (stream == stdout) log("{\"call\": \"said\", \"lines\": " + std::to_string(++flushes) + "}");
  return result;
}
}
