#include "thinwire/base/folder_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>

#include "tests/base/temporary_folder.h"
#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"

namespace thinwire {
namespace {

class FolderLockTest : public TemporaryFolder {
 protected:
  std::string refusal() const {
    try {
      FolderLock lock(home_);
    } catch (const BadInput& error) {
      return one_line(error);
    }
    return "none";
  }
};

TEST_F(FolderLockTest, TheSecondIsRefusedAndToldWhoTheFirstIs) {
  {
    FolderLock first(home_);
    EXPECT_EQ(first.left_by(), "");
    EXPECT_TRUE(refusal().starts_with(fmt::format("{} is in use by process {} on ", home_.string(), ::getpid())))
        << refusal();
  }
  EXPECT_EQ(refusal(), "none");
  EXPECT_FALSE(std::filesystem::exists(home_ / "lock"));
}

TEST_F(FolderLockTest, OneThatWasKilledIsNamedByTheNext) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    FolderLock lock(home_);
    [[maybe_unused]] const auto n = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char x;
  ASSERT_EQ(::read(ready[0], &x, 1), 1);
  EXPECT_NE(refusal().find(fmt::format("process {}", child)), std::string::npos);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  FolderLock next(home_);
  EXPECT_TRUE(next.left_by().starts_with(fmt::format("process {} on ", child))) << next.left_by();
}

TEST_F(FolderLockTest, WhatIsNoPlainFileIsRefusedAndLinksAreNotFollowed) {
  std::filesystem::create_directory(home_ / "lock");
  EXPECT_THROW(FolderLock{home_}, std::exception);
  std::filesystem::remove(home_ / "lock");
  std::ofstream(home_ / "precious") << "text";
  std::filesystem::create_symlink(home_ / "precious", home_ / "lock");
  EXPECT_THROW(FolderLock{home_}, std::exception);
  EXPECT_EQ(read_file(home_ / "precious"), "text");
}

}  // namespace
}  // namespace thinwire
