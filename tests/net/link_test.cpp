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
  EXPECT_EQ(sent_at(link_of("none"), 3, 1 << 30), 3);
  EXPECT_EQ(link_of("none/20ms"), (Link{.latency = 0.02}));
  EXPECT_FALSE(link_of("none/20ms").none());
  EXPECT_FALSE(link_of("1gbit").none());
}

TEST(Link, TextAndValueAreTwoFormsOfTheSame) {
  for (auto text : {"none", "none/20ms", "100mbit/20ms", "1gbit", "10gbit/1ms", "64kbit/1.5s", "300bit/250us",
                    "2.5gbit/3us", "56kbit/120ms"}) {
    EXPECT_EQ(to_text(link_of(text)), text);
    EXPECT_EQ(link_of(to_text(link_of(text))), link_of(text));
  }
  EXPECT_EQ(to_text(link_of("1000mbit/1000ms")), "1gbit/1s");
}

TEST(Link, UpAndDownJitterAndAScriptAreWrittenAsTheyAreRead) {
  const Link link = link_of("20mbit:100mbit/20ms~5ms, at 5s 10mbit, at 8s down 2s, at 9s none:1gbit");
  EXPECT_EQ(link.rate, 20e6);
  EXPECT_EQ(link.down, 100e6);
  EXPECT_EQ(link.jitter, 5e-3);
  ASSERT_EQ(link.events.size(), 3u);
  EXPECT_EQ(link.events[0], (Event{.at = 5, .rate = 10e6}));
  EXPECT_EQ(link.events[1], (Event{.at = 8, .outage = 2}));
  EXPECT_EQ(link.events[2], (Event{.at = 9, .down = 1e9}));
  for (auto text : {"20mbit:100mbit/20ms~5ms, at 5s 10mbit, at 8s down 2s, at 9s none:1gbit", "none:8kbit",
                    "1gbit/0s~3ms", "none, at 1s down 1s"})
    EXPECT_EQ(to_text(link_of(text)), text);
  EXPECT_FALSE(link_of("none, at 1s down 1s").none());
}

TEST(Link, AMessageTakesItsBitsOverTheRate) {
  EXPECT_DOUBLE_EQ(sent_at(link_of("100mbit/20ms"), 0, 12'500'000), 1) << "latency is not the uplink's business";
  EXPECT_DOUBLE_EQ(sent_at(link_of("8kbit"), 2, 1), 2.001);
  EXPECT_EQ(sent_at(link_of("8kbit"), 2, 0), 2);
  EXPECT_DOUBLE_EQ(received_at(link_of("8kbit:80kbit"), 2, 1000), 2.1);
  EXPECT_EQ(received_at(link_of("8kbit"), 2, 1000), 2) << "receiving is not limited unless it is said";
}

TEST(Link, AScriptIsFollowedThrough) {
  const Link link = link_of("8kbit, at 5s 80kbit, at 8s down 2s, at 9s 8kbit");
  EXPECT_DOUBLE_EQ(sent_at(link, 0, 1000), 1) << "before anything happens";
  EXPECT_DOUBLE_EQ(sent_at(link, 4, 2000), 5.1) << "one second slow, the rest ten times as fast";
  EXPECT_DOUBLE_EQ(sent_at(link, 7, 10'000), 8) << "the last bit leaves as the outage begins";
  EXPECT_DOUBLE_EQ(sent_at(link, 7.5, 6000), 8 + 2 + 1) << "half before the outage, a thousand bytes after it";
  EXPECT_DOUBLE_EQ(sent_at(link, 9.5, 1000), 11) << "posted in the outage";
  EXPECT_DOUBLE_EQ(sent_at(link, 20, 1000), 21) << "after it all";
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
  EXPECT_EQ(error_of("1mbit, 5s 2mbit"),
            "\"1mbit, 5s 2mbit\": wanted \"at TIME RATE\" or \"at TIME down TIME\" after a comma");
  EXPECT_EQ(error_of("1mbit, at 5s"), "''" + rates);
  EXPECT_EQ(error_of("1mbit, at 5s down"), "''" + times);
  EXPECT_EQ(error_of("1mbit, at 5s down 0s"), "\"1mbit, at 5s down 0s\": an outage lasts longer than 0 s");
  EXPECT_EQ(error_of("1mbit, at 5s 2mbit 3mbit"),
            "\"1mbit, at 5s 2mbit 3mbit\": a comma separates what happens to a link");
  EXPECT_EQ(error_of("1mbit, at 5s 2mbit, at 4s 1mbit"),
            "\"1mbit, at 5s 2mbit, at 4s 1mbit\": later events come later");
  EXPECT_EQ(error_of("0mbit"), "a link needs a rate above 0, got \"0mbit\"");
  EXPECT_EQ(error_of("0bit/20ms"), "a link needs a rate above 0, got \"0bit/20ms\"");
}

}  // namespace
}  // namespace thinwire::net
