// A folder for the files of one test, gone at its end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>

namespace thinwire {

class TemporaryFolder : public testing::Test {
 protected:
  TemporaryFolder() { std::filesystem::create_directories(home_); }
  ~TemporaryFolder() override { std::filesystem::remove_all(home_); }

  // Of everything in the folder, hidden or not.
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(home_)) names.insert(entry.path().filename().string());
    return names;
  }

  const std::filesystem::path home_ =
      std::filesystem::temp_directory_path() /
      ("thinwire_" + std::to_string(::getpid()) + testing::UnitTest::GetInstance()->current_test_info()->name());
};

}  // namespace thinwire
