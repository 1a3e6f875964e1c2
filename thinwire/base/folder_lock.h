// A folder that is one process's own while it writes there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "thinwire/base/descriptor.h"

namespace thinwire {

// Holds flock() on the file `lock` in a folder, which names the owner: "process 4711 on host b". The system releases it
// when the process ends, however it ends; the file is removed by one that ends well, so that the next one knows of one
// that did not. Of two that lock one folder, threads of one process too, the second gets BadInput.
//
// Where the file system has no locks (some network disks), nothing is held, and nothing is said.
class FolderLock {
 public:
  // BadInput naming the holder if there is one; std::system_error if the file cannot be made.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Which process held it last and was killed; empty: none.
  const std::string& left_by() const { return left_by_; }

 private:
  const std::filesystem::path path_;
  std::optional<Descriptor> file_;
  std::string left_by_;
};

}  // namespace thinwire
