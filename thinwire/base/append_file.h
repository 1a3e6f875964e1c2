// A file that only grows, a line at a time: metrics.jsonl and its like. Used by one thread and one process; readers may
// see half of the last line.
#pragma once

#include <filesystem>
#include <string>

#include "thinwire/base/descriptor.h"

namespace thinwire {

class AppendFile {
 public:
  // Opens the file, or makes an empty one. BadInput if something is there that is not a plain file.
  explicit AppendFile(const std::filesystem::path& path);

  // At the end of the file at once, with a line break; not yet flushed to disk. std::system_error with path and reason;
  // then the file is as it was before.
  void write_line(const std::string& line);
  void sync();  // what was written survives a power cut

 private:
  std::filesystem::path path_;
  Descriptor file_;
};

}  // namespace thinwire
