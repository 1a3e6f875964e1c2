#include "thinwire/base/append_file.h"

#include <gtest/gtest.h>

#include "tests/base/temporary_folder.h"
#include "thinwire/base/errors.h"
#include "thinwire/base/read_file.h"

namespace thinwire {
namespace {

class Append : public TemporaryFolder {};

TEST_F(Append, LinesAreThereAtOnceAndAfterThoseOfBefore) {
  const auto path = home_ / "lines";
  {
    AppendFile file(path);
    EXPECT_EQ(read_file(path), "");
    file.write_line("one");
    EXPECT_EQ(read_file(path), "one\n");
  }
  AppendFile file(path);
  file.write_line("two");
  file.sync();
  EXPECT_EQ(read_file(path), "one\ntwo\n");
}

TEST_F(Append, OnlyPlainFilesGrowAndErrorsCarryPathAndReason) {
  EXPECT_THROW(AppendFile("/dev/full"), BadInput);
  try {
    AppendFile file(home_ / "no" / "lines");
    FAIL() << "nothing was thrown";
  } catch (const std::system_error& error) {
    EXPECT_EQ(std::string(error.what()), (home_ / "no" / "lines").string() + ": No such file or directory");
  }
}

}  // namespace
}  // namespace thinwire
