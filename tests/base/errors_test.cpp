#include "thinwire/base/errors.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace thinwire {
namespace {

TEST(Errors, BadInputIsFormatted) {
  EXPECT_STREQ(BadInput("{} must be {}, got {}", "lr", "above 0", -1).what(), "lr must be above 0, got -1");
}

TEST(Errors, BadInputTakesAFinishedTextAsItIs) {
  EXPECT_STREQ(BadInput(std::string("braces {} stay")).what(), "braces {} stay");
}

TEST(Errors, OneLineOfATorchErrorHasNoBacktrace) {
  try {
    TORCH_CHECK(false, "[place] wanted ", 1, ", got ", 2);
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_EQ(one_line(error), "[place] wanted 1, got 2");
  }
}

TEST(Errors, OneLineIsTheFirst) {
  EXPECT_EQ(one_line(std::runtime_error("first\nsecond")), "first");
  EXPECT_EQ(one_line(std::runtime_error("only")), "only");
  EXPECT_EQ(one_line(std::runtime_error("")), "");
}

}  // namespace
}  // namespace thinwire
