#include "thinwire/net/link.h"

#include <gtest/gtest.h>

#include "thinwire/base/errors.h"

namespace thinwire::net {
namespace {

Link link_of(std::string_view text) {
  Link link{1, 2};
  from_text(text, link);
  return link;
}

std::string error_of(std::string_view text) {
  Link link{1, 2};
  try {
    from_text(text, link);
  } catch (const BadInput& error) {
    EXPECT_EQ(link, (Link{1, 2})) << "an error must leave the value as it was";
    return error.what();
  }
  return "no error";
}

TEST(Link, IsReadFromRateAndOneWayLatency) {
  EXPECT_EQ(link_of("100mbit/20ms"), (Link{100e6, 0.02}));
  EXPECT_EQ(link_of("1gbit"), (Link{1e9, 0}));
  EXPECT_EQ(link_of("1.5gbit/0s"), (Link{1.5e9, 0}));
  EXPECT_EQ(link_of("64kbit/1.5s"), (Link{64e3, 1.5}));
  EXPECT_EQ(link_of("300bit/250us"), (Link{300, 250 * 1e-6}));
}

TEST(Link, NoneIsAsFastAsItGoes) {
  EXPECT_TRUE(link_of("none").none());
  EXPECT_EQ(link_of("none"), Link{});
  EXPECT_EQ(link_of("none").busy_s(1 << 30), 0);
  EXPECT_EQ(link_of("none/20ms"), (Link{.latency = 0.02}));
  EXPECT_FALSE(link_of("none/20ms").none());
  EXPECT_FALSE(link_of("1gbit").none());
}

TEST(Link, TextAndValueAreTwoFormsOfTheSame) {
  for (auto text : {"none", "none/20ms", "100mbit/20ms", "1gbit", "10gbit/1ms", "64kbit/1.5s", "300bit/250us", "2.5gbit/3us",
                    "56kbit/120ms"}) {
    EXPECT_EQ(to_text(link_of(text)), text);
    EXPECT_EQ(link_of(to_text(link_of(text))), link_of(text));
  }
  EXPECT_EQ(to_text(link_of("1000mbit/1000ms")), "1gbit/1s");
}

TEST(Link, BusyTimeIsBytesOverRate) {
  EXPECT_DOUBLE_EQ(link_of("100mbit/20ms").busy_s(12'500'000), 1);
  EXPECT_DOUBLE_EQ(link_of("8kbit").busy_s(1), 0.001);
  EXPECT_EQ(link_of("8kbit").busy_s(0), 0);
}

TEST(Link, ErrorsSayWhatWasWanted) {
  const std::string rates = " is not a rate: wanted a number and one of bit, kbit, mbit, gbit, like \"100mbit\"";
  const std::string times = " is not a time: wanted a number and one of s, ms, us, min, h, like \"20ms\"";
  for (std::string text : {"", "100", "fast", "100MB", "-1mbit", "mbit", "100 mbit", "infmbit", "nanmbit", "None"})
    EXPECT_EQ(error_of(text), "'" + text + "'" + rates);
  EXPECT_EQ(error_of("100mb/20ms"), "'100mb'" + rates);
  EXPECT_EQ(error_of("/20ms"), "''" + rates);
  EXPECT_EQ(error_of("100mbit/"), "''" + times);
  EXPECT_EQ(error_of("100mbit/20"), "'20'" + times);
  EXPECT_EQ(error_of("100mbit/-20ms"), "'-20ms'" + times);
  EXPECT_EQ(error_of("100mbit/20ms/3"), "'20ms/3'" + times);
  EXPECT_EQ(error_of("none/"), "''" + times);
  EXPECT_EQ(error_of("0mbit"), "a link needs a rate above 0, got \"0mbit\"");
  EXPECT_EQ(error_of("0bit/20ms"), "a link needs a rate above 0, got \"0bit/20ms\"");
}

}  // namespace
}  // namespace thinwire::net
