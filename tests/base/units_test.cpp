#include "thinwire/base/units.h"

#include <gtest/gtest.h>

#include "thinwire/base/errors.h"

namespace thinwire {
namespace {

int64_t bytes(std::string_view text) {
  Bytes out;
  from_text(text, out);
  return out.count;
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const BadInput& error) {
    return error.what();
  }
  return "no error";
}

TEST(Units, SizesAreReadInPowersOf1000And1024) {
  const std::pair<const char*, int64_t> known[] = {
      {"0", 0},
      {"512", 512},
      {"7B", 7},
      {"4kB", 4000},
      {"1.5GB", 1'500'000'000},
      {"25MiB", 25 << 20},
      {"0.5KiB", 512},
      {"2GiB", 2ll << 30},
      {"3MB", 3'000'000},
      {"1e3B", 1000},
      {"9223372036854775807", INT64_MAX},
  };
  for (const auto& [text, count] : known) EXPECT_EQ(bytes(text), count) << text;
}

TEST(Units, ASizeIsPrintedInTheLargestBinaryUnitThatIsWhole) {
  const std::pair<int64_t, const char*> known[] = {
      {0, "0B"}, {1, "1B"}, {1000, "1000B"}, {1024, "1KiB"}, {1536, "1536B"}, {25 << 20, "25MiB"}, {3ll << 30, "3GiB"},
  };
  for (const auto& [count, text] : known) {
    EXPECT_EQ(to_text(Bytes{count}), text);
    EXPECT_EQ(bytes(text), count);
  }
}

TEST(Units, TimesAndRatesAreReadWithTheirFactor) {
  const std::pair<const char*, double> times[] = {{"20ms", 0.02}, {"1.5s", 1.5}, {"3us", 3e-6},
                                                  {"2min", 120},  {"1h", 3600},  {"0s", 0}};
  for (const auto& [text, seconds] : times) EXPECT_DOUBLE_EQ(parse_seconds(text), seconds) << text;
  const std::pair<const char*, double> rates[] = {{"100mbit", 1e8}, {"1gbit", 1e9}, {"64kbit", 64e3}, {"9bit", 9}};
  for (const auto& [text, rate] : rates) EXPECT_DOUBLE_EQ(parse_rate(text), rate) << text;
}

TEST(Units, WhatIsPrintedIsTheShortestTextThatWasRead) {
  for (const char* text : {"0s", "20ms", "1.5s", "3us", "0.1us", "15.7ms", "31us", "120s", "999.5ms"})
    EXPECT_EQ(seconds_text(parse_seconds(text)), text);
  for (const char* text : {"0bit", "100mbit", "1gbit", "2.3gbit", "64kbit", "9bit", "0.5bit", "2500gbit"})
    EXPECT_EQ(rate_text(parse_rate(text)), text);
}

TEST(Units, EveryNumberReadsBackToTheBit) {
  for (double v = 1.0 / 3; v < 1e13; v *= 1.37) EXPECT_EQ(parse_rate(rate_text(v)), v) << rate_text(v);
  for (double v = 1e-9 / 3; v < 1e4; v *= 1.37) EXPECT_EQ(parse_seconds(seconds_text(v)), v) << seconds_text(v);
}

TEST(Units, AWrongUnitIsAnErrorThatSaysWhatWasWanted) {
  const std::string sizes = ": wanted a number and one of B, kB, MB, GB, KiB, MiB, GiB, like \"25MiB\"";
  for (std::string text : {"20ms", "", "MiB", "-1", "-1kB", "5 kB", "5kb", "5KB", "1e400GB", "infB", "nanB", "0x10"})
    EXPECT_EQ(error_of([&] { bytes(text); }), "'" + text + "' is not a size" + sizes);
  const std::string times = ": wanted a number and one of s, ms, us, min, h, like \"20ms\"";
  for (std::string text : {"20", "20mbit", "", "-3s", "infs", "nans", "1e308h", "1s2"})
    EXPECT_EQ(error_of([&] { parse_seconds(text); }), "'" + text + "' is not a time" + times);
  const std::string rates = ": wanted a number and one of bit, kbit, mbit, gbit, like \"100mbit\"";
  for (std::string text : {"100", "100MB", "100Mbit", "100mbit/20ms", "1e308gbit"})
    EXPECT_EQ(error_of([&] { parse_rate(text); }), "'" + text + "' is not a rate" + rates);
}

TEST(Units, ASizeThat64BitsCannotCountIsAnError) {
  EXPECT_EQ(error_of([] { bytes("9223372037GB"); }), "'9223372037GB' is more bytes than 64 bits can count");
}

TEST(Units, AFailedReadLeavesTheOldSize) {
  Bytes size{5};
  EXPECT_THROW(from_text("5 parsecs", size), BadInput);
  EXPECT_EQ(size, Bytes{5});
}

}  // namespace
}  // namespace thinwire
