#include "thinwire/base/options.h"

#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <cmath>
#include <limits>

#include "thinwire/base/errors.h"
#include "thinwire/base/units.h"

namespace thinwire {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct CropOptions {
  int64_t width = 8;
  double share = 0.5;
  bool mirror = false;
  std::string mode = "centre";
  std::array<double, 2> scales = {0.5, 1};
  Bytes cache = {1 << 20};
  double padding = 0;  // only where mode is "grow"
};
template <class F>
void fields(F&& f, CropOptions& o) {
  f("width", o.width, at_least(1), "columns kept");
  f("share", o.share, above_up_to(0, 1), "part of the rows kept");
  f("mirror", o.mirror, any(), "left to right");
  f("mode", o.mode, one_of({"centre", "random", "grow"}), "where to cut");
  f("scales", o.scales, at_least_below(0, 2), "least and most");
  f("cache", o.cache, any(), "for decoded rows");
  if (o.mode == "grow") f("padding", o.padding, between(-1, 1), "of grey");
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

std::string read_error(const std::string& key, Value value) {
  CropOptions o;
  return error_of([&] { read_section({{key, std::move(value)}}, "crop", o); });
}

TEST(Options, ALimitSaysWhatItAllows) {
  EXPECT_EQ(any().text(), "");
  EXPECT_EQ(at_least(1).text(), "at least 1");
  EXPECT_EQ(above(0).text(), "above 0");
  EXPECT_EQ(between(0, 1e3).text(), "at least 0 and at most 1000");
  EXPECT_EQ(between(3, 3).text(), "3");
  EXPECT_EQ(at_least_below(0, 1).text(), "at least 0 and below 1");
  EXPECT_EQ(above_up_to(0, 0.5).text(), "above 0 and at most 0.5");
  EXPECT_EQ(one_of({"gpt", "mlp"}).text(), "one of gpt, mlp");
}

TEST(Options, ALimitHoldsAtItsEnds) {
  const auto allows = [](const Limit& limit, double v) {
    double field = 0;
    return error_of([&] { read(Value(v), "x", field, limit); }) == "no error";
  };
  EXPECT_TRUE(allows(at_least(1), 1));
  EXPECT_TRUE(allows(at_least(1), kInf));
  EXPECT_FALSE(allows(above(1), 1));
  EXPECT_TRUE(allows(between(0, 1), 0));
  EXPECT_TRUE(allows(between(0, 1), 1));
  EXPECT_TRUE(allows(at_least_below(0, 1), 0));
  EXPECT_FALSE(allows(at_least_below(0, 1), 1));
  EXPECT_FALSE(allows(above_up_to(0, 1), 0));
  EXPECT_TRUE(allows(above_up_to(0, 1), 1));
  EXPECT_TRUE(allows(any(), -kInf));
  for (const Limit& limit : {any(), at_least(1), above(1), between(0, 1), at_least_below(0, 1), above_up_to(0, 1)})
    EXPECT_FALSE(allows(limit, kNan)) << limit.text();
}

TEST(Options, ASectionIsReadIntoItsFields) {
  CropOptions o;
  read_section({{"width", int64_t{3}},
                {"share", int64_t{1}},  // a whole number is a number
                {"mirror", true},
                {"mode", std::string("grow")},
                {"scales", std::vector<double>{0, 1.5}},
                {"cache", std::string("4kB")},
                {"padding", -0.25}},
               "crop", o);
  EXPECT_EQ(o.width, 3);
  EXPECT_EQ(o.share, 1);
  EXPECT_TRUE(o.mirror);
  EXPECT_EQ(o.mode, "grow");
  EXPECT_EQ(o.scales, (std::array<double, 2>{0, 1.5}));
  EXPECT_EQ(o.cache, Bytes{4000});
  EXPECT_EQ(o.padding, -0.25);
}

TEST(Options, AWrongValueIsAnErrorThatStartsWithTheKey) {
  const std::tuple<const char*, Value, const char*> known[] = {
      {"width", 3.0, "crop.width must be a whole number, got 3.0"},
      {"width", std::string("3"), "crop.width must be a whole number, got \"3\""},
      {"width", int64_t{0}, "crop.width must be at least 1, got 0"},
      {"share", true, "crop.share must be a number, got true"},
      {"share", 1.5, "crop.share must be above 0 and at most 1, got 1.5"},
      {"share", kNan, "crop.share must be above 0 and at most 1, got nan"},
      {"share", kInf, "crop.share must be above 0 and at most 1, got inf"},
      {"mirror", int64_t{1}, "crop.mirror must be true or false, got 1"},
      {"mode", false, "crop.mode must be a text in quotes, got false"},
      {"mode", std::string("random "),
       "crop.mode must be one of centre, random, grow, got \"random \"; did you mean \"random\"?"},
      {"mode", std::string("xyz"), "crop.mode must be one of centre, random, grow, got \"xyz\""},
      {"scales", 0.5, "crop.scales must be two numbers in brackets, got 0.5"},
      {"scales", std::vector<double>{1, 1, 1}, "crop.scales must be two numbers in brackets, got [1.0, 1.0, 1.0]"},
      {"scales", std::vector<double>{1, 2}, "crop.scales must be at least 0 and below 2, got 2"},
      {"scales", std::vector<double>{kNan, 1}, "crop.scales must be at least 0 and below 2, got nan"},
      {"cache", 1.5, "crop.cache must be a number with its unit, in quotes, got 1.5"},
      {"cache", int64_t{-1},
       "crop.cache: '-1' is not a size: wanted a number and one of B, kB, MB, GB, KiB, MiB, GiB, like \"25MiB\""},
  };
  for (const auto& [key, value, text] : known) EXPECT_EQ(read_error(key, value), text);
}

TEST(Options, NanIsNotANumberEvenWhereAnyIs) {
  double field = 0;
  EXPECT_EQ(error_of([&] { read(Value(kNan), "x", field, any()); }), "x must be a number, got nan");
}

TEST(Options, AnUnknownKeyIsAnErrorWithTheNearestName) {
  EXPECT_EQ(read_error("widht", int64_t{1}), "unknown key crop.widht; did you mean crop.width?");
  EXPECT_EQ(read_error("z", int64_t{1}), "unknown key crop.z (there are: width, share, mirror, mode, scales, cache)");
}

TEST(Options, AFieldThatWasNotAskedForIsUnknown) {
  EXPECT_EQ(read_error("padding", 0.5),
            "unknown key crop.padding (there are: width, share, mirror, mode, scales, cache)");
}

TEST(Options, WhatAProgramFilledInIsCheckedToo) {
  EXPECT_EQ(error_of([] { check_fields("crop", CropOptions{}); }), "no error");
  EXPECT_EQ(error_of([] { check_fields("crop", CropOptions{.width = 0}); }), "crop.width must be at least 1, got 0");
  EXPECT_EQ(error_of([] { check_fields("crop", CropOptions{.share = kNan}); }),
            "crop.share must be above 0 and at most 1, got nan");
  EXPECT_EQ(error_of([] { check_fields("crop", CropOptions{.mode = "Grow"}); }),
            "crop.mode must be one of centre, random, grow, got \"Grow\"; did you mean \"grow\"?");
  EXPECT_EQ(error_of([] { check_fields("crop", CropOptions{.mode = "grow", .padding = -2}); }),
            "crop.padding must be at least -1 and at most 1, got -2");
  EXPECT_EQ(error_of([] { check_fields("crop", CropOptions{.mode = "random", .padding = -2}); }), "no error");
}

TEST(Options, AListedStructReadsBackTheSame) {
  const CropOptions o{.width = 3, .share = 0.1, .mode = "grow", .scales = {1e-9, 1}, .cache = {1001}, .padding = 1};
  Table table;
  for (const Field& field : list_fields(o)) table[field.key] = field.value;
  CropOptions again;
  read_section(table, "crop", again);
  EXPECT_EQ(table.size(), 7u);
  EXPECT_EQ(std::tie(again.width, again.share, again.mirror, again.mode, again.scales, again.cache, again.padding),
            std::tie(o.width, o.share, o.mirror, o.mode, o.scales, o.cache, o.padding));
}

TEST(Options, AFieldIsListedWithItsLimitAndHelp) {
  const Field width = list_fields(CropOptions{})[0];
  EXPECT_EQ(width.key, "width");
  EXPECT_EQ(width.allowed, "at least 1");
  EXPECT_EQ(width.help, "columns kept");
}

TEST(Toml, ValuesAreWrittenSoThatTheirTypeIsKept) {
  const std::pair<Value, const char*> known[] = {
      {true, "true"},
      {int64_t{-3}, "-3"},
      {3.0, "3.0"},
      {-0.0, "-0.0"},
      {1e-8, "1e-08"},
      {1e300, "1e+300"},
      {kInf, "inf"},
      {-kInf, "-inf"},
      {kNan, "nan"},
      {std::string("a \"b\" \\ \n"), R"("a \"b\" \\ \u000A")"},
      {std::vector<double>{0.9, 1, kInf}, "[0.9, 1.0, inf]"},
      {std::vector<double>{}, "[]"},
  };
  for (const auto& [value, text] : known) EXPECT_EQ(toml_text(value), text);
}

toml::node_view<toml::node> parsed(toml::table& into, const Value& value) {
  into = toml::parse("x = " + toml_text(value));
  return into["x"];
}

TEST(Toml, AnyTextReadsBackTheSame) {
  std::string controls;
  for (char c = 0; c < 0x20; ++c) controls += c;
  toml::table t;
  for (const std::string& text :
       std::vector<std::string>{"", "plain", "\"", "\\", "\\\"", "\\n is not a newline", "C:\\path\\u0041", "'''\"\"\"",
                                "# = [x]", controls, "\x7f", "\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80"})
    EXPECT_EQ(parsed(t, text).value_exact<std::string>(), text);
}

TEST(Toml, AnyNumberReadsBackToTheBit) {
  toml::table t;
  for (int64_t v : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) EXPECT_EQ(parsed(t, v).value_exact<int64_t>(), v);
  using limits = std::numeric_limits<double>;
  for (double v : {0.0, -0.0, 1.0, 0.1, 1.0 / 3, 1e16, 1e21, 123456789.0, -2.5e-7, limits::min(), limits::max(),
                   limits::denorm_min(), kInf, -kInf}) {
    const double again = parsed(t, v).value_exact<double>().value();
    EXPECT_EQ(again, v);
    EXPECT_EQ(std::signbit(again), std::signbit(v));
  }
  EXPECT_TRUE(std::isnan(parsed(t, kNan).value_exact<double>().value()));
}

}  // namespace
}  // namespace thinwire
