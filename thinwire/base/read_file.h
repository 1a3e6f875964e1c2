// The one way in which this program reads a whole file. From any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace thinwire {

// A file that could not be read; what() is "PATH: REASON". Where the path came from the user, callers make it BadInput.
struct Unreadable : std::runtime_error {
  Unreadable(const std::filesystem::path& path, const std::string& why)
      : std::runtime_error(path.string() + ": " + why), reason(why) {}
  std::string reason;  // "No such file or directory", "not a plain file"
};

// All bytes of a plain file. Unreadable if it is anything else (a pipe, a socket or a device is neither opened nor
// waited for), if it has more than `most_bytes` or than this machine has memory, or if the system does not let it.
std::string read_file(const std::filesystem::path& path, int64_t most_bytes = INT64_MAX);

// The same for what this program has written into a folder of its own, which may have come from anywhere since: never
// reads outside it. Unreadable if `name` is a path rather than a name, or if that is a link.
std::string read_file_in(const std::filesystem::path& folder, const std::string& name, int64_t most_bytes = INT64_MAX);

// The same for a file that may be missing or unreadable: then an empty string. For hints, never for what decides.
std::string read_file_if_any(const std::filesystem::path& path);

}  // namespace thinwire
