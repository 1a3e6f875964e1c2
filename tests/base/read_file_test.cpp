#include "thinwire/base/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/base/temporary_folder.h"
#include "thinwire/base/atomic_file.h"

namespace thinwire {
namespace {

class ReadFile : public TemporaryFolder {
 protected:
  std::string complaint(const std::filesystem::path& path, int64_t most_bytes = INT64_MAX) const {
    try {
      read_file(path, most_bytes);
    } catch (const Unreadable& error) {
      EXPECT_EQ(std::string(error.what()), path.string() + ": " + error.reason);
      return error.reason;
    }
    return "none";
  }
};

TEST_F(ReadFile, GivesEveryByte) {
  const std::string bytes("a\0b\r\n\xff", 6);
  for (const std::string& text : {std::string(), bytes, std::string(100'000, 'x')}) {
    write_file(home_ / "file", {text});
    EXPECT_EQ(read_file(home_ / "file"), text);
  }
}

TEST_F(ReadFile, AFileThatDoesNotKnowItsSizeIsReadToItsEnd) {
  EXPECT_EQ(std::filesystem::file_size("/proc/self/status"), 0u);
  EXPECT_TRUE(read_file("/proc/self/status").starts_with("Name:"));
  EXPECT_TRUE(read_file("/proc/sys/vm/max_map_count").ends_with("\n")) << "which a second read would not go on with";
}

TEST_F(ReadFile, WhatIsNoPlainFileIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo((home_ / "pipe").c_str(), 0600), 0);
  for (const std::filesystem::path& path : {home_ / "pipe", home_, std::filesystem::path("/dev/zero")})
    EXPECT_EQ(complaint(path), "not a plain file") << path;
}

TEST_F(ReadFile, TheReasonIsTheSystems) {
  EXPECT_EQ(complaint(home_ / "nothing"), "No such file or directory");
  EXPECT_EQ(complaint("/proc/self/mem"), "Input/output error");  // nothing is mapped at address 0
}

TEST_F(ReadFile, MoreThanAllowedIsRefused) {
  write_file(home_ / "file", {"1234567890"});
  EXPECT_EQ(complaint(home_ / "file", 10), "none");
  EXPECT_EQ(complaint(home_ / "file", 9), "10 bytes, the most allowed is 9");
  EXPECT_TRUE(complaint("/proc/self/status", 9).ends_with("bytes, the most allowed is 9"));
}

TEST_F(ReadFile, IfThereIsNoneThereIsNothing) {
  write_file(home_ / "file", {"x"});
  EXPECT_EQ(read_file_if_any(home_ / "file"), "x");
  EXPECT_EQ(read_file_if_any(home_ / "nothing"), "");
  EXPECT_EQ(read_file_if_any(home_), "");
}

}  // namespace
}  // namespace thinwire
