// Which files a path stands for, and what is in them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thinwire::data {

// The files at or under `folder` whose names end in `suffix`, in the order of their paths. Left out: hidden files and
// folders (a leading dot), folders named in `skip`, and links to folders. BadInput if a folder cannot be read.
std::vector<std::string> files_under(const std::string& folder, const std::string& suffix,
                                     const std::vector<std::string>& skip);

// All bytes of a file; BadInput if it cannot be read.
std::string read_text(const std::string& path);

// A file with a NUL byte is a picture, an archive or a program, not text.
inline bool is_text(std::string_view bytes) { return bytes.find('\0') == std::string_view::npos; }

}  // namespace thinwire::data
