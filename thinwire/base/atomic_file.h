// A file that is whole or not there: the one way in which this program replaces a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace thinwire {

// What a file holds, for a manifest.
struct Written {
  int64_t bytes = 0;
  uint64_t xxh3 = 0;  // of what was meant to be in it
};

// Puts `parts`, one after the other, into the file at `path`: they are written beside it under a name that nothing else
// has (no link is followed), flushed to disk, renamed, and the folder is flushed too. A reader of `path`, also after a
// crash, finds the old file or the new one. From any thread and process; of two that write one path, one wins.
//
// BadInput if something is there that is not a plain file: a folder, a device, a pipe, a link. Else what fails is
// std::system_error with path and reason ("x.html: No space left on device"); then the old file is as it was, and
// nothing is left beside it. (Unless the very last flush fails: the new file is there, but may be gone after a power
// cut.)
Written write_file(const std::filesystem::path& path, const std::vector<std::string_view>& parts);

// Removes what writers of `path` that were killed left beside it. Only where no other process or thread
// writes it now.
void remove_leftovers(const std::filesystem::path& path);

// Makes a folder and those above it where they are missing, each as durable as a file. std::system_error as above.
void create_folders(const std::filesystem::path& folder);

// Makes the names in a folder as durable as the files behind them. std::system_error as above.
void sync_folder(const std::filesystem::path& folder);

}  // namespace thinwire
