// A file descriptor that is closed at its end, and system calls that throw: for the files beside it in this room.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace thinwire {

// std::system_error "PATH: REASON" of errno.
[[noreturn]] inline void throw_errno(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string());
}

class Descriptor {
 public:
  // What open() returned; throws if that is an error.
  Descriptor(int opened, const std::filesystem::path& path) : number_(opened) {
    if (number_ < 0) throw_errno(path);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }

  operator int() const { return number_; }
  // For a file that was written: some file systems say only now that there was no space.
  void close(const std::filesystem::path& path) {
    if (::close(std::exchange(number_, -1)) != 0) throw_errno(path);
  }

 private:
  int number_;
};

inline void write_all(int file, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) throw_errno(path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace thinwire
