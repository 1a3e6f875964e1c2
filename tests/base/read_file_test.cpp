#include "thinwire/base/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

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
  // This one gives its first digit, and then nothing, to a reader that asks for one byte.
  EXPECT_GT(std::stol(read_file("/proc/sys/kernel/threads-max")), 100);
}

TEST_F(ReadFile, AFileThatGivesAllItHasAtOnceIsReadWhole) {
  std::string said;
  std::ifstream("/proc/sys/kernel/threads-max") >> said;
  EXPECT_EQ(read_file("/proc/sys/kernel/threads-max"), said + "\n");
}

TEST_F(ReadFile, WhatIsNoPlainFileIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo((home_ / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mknod((home_ / "socket").c_str(), S_IFSOCK | 0600, 0), 0);
  std::filesystem::create_symlink("pipe", home_ / "link");
  for (const std::filesystem::path& path :
       {home_ / "pipe", home_ / "socket", home_ / "link", home_, std::filesystem::path("/dev/zero")})
    EXPECT_EQ(complaint(path), "not a plain file") << path;
}

TEST_F(ReadFile, OfAFolderIsNeverOneOutsideIt) {
  std::filesystem::create_directory(home_ / "run");
  write_file(home_ / "secret", {"x"});
  write_file(home_ / "run" / "plain", {"y"});
  std::filesystem::create_symlink(home_ / "secret", home_ / "run" / "link");
  const auto complaint_in = [&](const std::string& name) -> std::string {
    try {
      read_file_in(home_ / "run", name);
    } catch (const Unreadable& error) {
      return error.reason;
    }
    return "none";
  };
  EXPECT_EQ(read_file_in(home_ / "run", "plain"), "y");
  EXPECT_EQ(complaint_in("link"), "a link, and links are not followed here");
  for (const std::string& name : {std::string("../secret"), (home_ / "secret").string(), std::string(".."),
                                  std::string(), std::string("plain\0", 6), std::string("../run/plain")})
    EXPECT_EQ(complaint_in(name), "'" + name + "' is not the name of a file in it");
}

TEST_F(ReadFile, AFileLargerThanTheMemoryIsRefusedBeforeItIsRead) {
  write_file(home_ / "hole", {""});
  std::filesystem::resize_file(home_ / "hole", uint64_t{1} << 43);
  EXPECT_TRUE(complaint(home_ / "hole").starts_with("8796093022208 bytes, the most allowed is "));
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
