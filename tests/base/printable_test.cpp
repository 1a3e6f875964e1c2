#include "thinwire/base/printable.h"

#include <gtest/gtest.h>

namespace thinwire {
namespace {

TEST(Printable, WordsInAnyLanguageStay) {
  for (const char* text : {"", "plain", "caf\u00e9", "\u20ac \U0001f600"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_TRUE(is_utf8(text));
  }
}

TEST(Printable, EscapeCodesDoNotReachATerminal) {
  EXPECT_EQ(printable("\x1b[2Jgone\x07\r\n\t"), "?[2Jgone????");
  EXPECT_EQ(printable("\u009b31m"), "?31m") << "a C1 control character";
  EXPECT_EQ(printable("\x7f"), "?");
}

TEST(Printable, WhatIsNoUtf8BecomesAQuestionMark) {
  // Cut off, a stray continuation, too long a form, a surrogate, beyond the last character, never a byte of UTF-8.
  for (const char* text : {"\xe2\x82", "\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_FALSE(is_utf8(text));
    EXPECT_EQ(printable(text).find_first_not_of('?'), std::string::npos);
  }
  EXPECT_EQ(printable("a\xffz"), "a?z");
}

}  // namespace
}  // namespace thinwire
