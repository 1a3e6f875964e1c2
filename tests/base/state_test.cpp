#include "thinwire/base/state.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/base/errors.h"

namespace thinwire {
namespace {

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return one_line(error);
  }
  return "no error";
}

TEST(State, ScalarsComeBackToTheBit) {
  State state;
  put(state, "pi", 3.141592653589793, Scope::all_equal);
  put(state, "steps", INT64_MAX, Scope::per_shard);
  EXPECT_EQ(get_double(state, "pi"), 3.141592653589793);
  EXPECT_EQ(get_int(state, "steps", 0, INT64_MAX), INT64_MAX);
  EXPECT_EQ(state["pi"].value.dim(), 0);
  EXPECT_EQ(state["pi"].scope, Scope::all_equal);
  EXPECT_EQ(state["steps"].scope, Scope::per_shard);
}

TEST(State, PuttingANameAgainReplacesIt) {
  State state;
  put(state, "t", int64_t{1}, Scope::all_equal);
  put(state, "t", int64_t{2}, Scope::all_equal);
  EXPECT_EQ(get_int(state, "t", 0), 2);
}

TEST(State, ATensorIsCopiedIntoItsPlace) {
  const State state = {{"m", {at::arange(4, at::kFloat), Scope::per_replica}}};
  at::Tensor all = at::zeros({6}, at::kFloat), place = all.narrow(0, 1, 4);
  get(state, "m", place);
  EXPECT_TRUE(at::equal(all.narrow(0, 1, 4), at::arange(4, at::kFloat)));
  place.zero_();
  EXPECT_EQ(state.at("m").value[3].item<float>(), 3);
}

TEST(State, AWrongReadIsAnErrorThatNamesTheEntry) {
  State state = {{"m", {at::zeros({4}, at::kFloat)}}};
  put(state, "t", int64_t{1}, Scope::all_equal);
  put(state, "x", 1.0, Scope::all_equal);
  EXPECT_EQ(error_of([&] { get_int(state, "z", 0); }), "the saved state has no 'z'");
  EXPECT_EQ(error_of([&] { get(state, "z", at::zeros({4})); }), "the saved state has no 'z'");
  EXPECT_EQ(error_of([&] { get_double(state, "t"); }), "the saved 't' must be Double, got Long");
  EXPECT_EQ(error_of([&] { get_int(state, "x", 0); }), "the saved 'x' must be Long, got Double");
  EXPECT_EQ(error_of([&] { get_int(state, "m", 0); }), "the saved 'm' must be Long, got Float [4]");
  EXPECT_EQ(error_of([&] { get(state, "m", at::zeros({5}, at::kFloat)); }),
            "the saved 'm' must be Float [5], got Float [4]");
  EXPECT_EQ(error_of([&] {
              get(state, "m", at::zeros({2, 2}, at::kDouble));
            }),
            "the saved 'm' must be Double [2, 2], got Float [4]");
}

TEST(State, ANumberOutOfItsRangeIsBadInputThatNamesTheEntry) {
  State state = {{"m", {at::arange(4, at::kFloat)}}};
  put(state, "t", int64_t{-7}, Scope::all_equal);
  EXPECT_THROW(get_int(state, "t", 0), BadInput);
  EXPECT_EQ(get_int(state, "t", -7, -7), -7);
  EXPECT_EQ(error_of([&] { get_int(state, "t", 1, 8); }), "the saved 't' must be from 1 to 8, got -7");
  EXPECT_EQ(error_of([&] { get_int(state, "t", 3, 3); }), "the saved 't' must be 3, got -7");
  for (const double wrong : {double(NAN), double(INFINITY), -double(INFINITY)}) {
    put(state, "x", wrong, Scope::all_equal);
    EXPECT_THROW(get_double(state, "x"), BadInput) << wrong;
  }
  EXPECT_EQ(error_of([&] { get_double(state, "x"); }), "the saved 'x' must be finite, got -inf");
  EXPECT_EQ(error_of([&] { get_double(state, "x", 0); }), "the saved 'x' must be finite and at least 0, got -inf");

  at::Tensor into = at::zeros({4}, at::kFloat);
  get(state, "m", into, 0, 3);
  EXPECT_TRUE(at::equal(into, at::arange(4, at::kFloat)));
  EXPECT_EQ(error_of([&] { get(state, "m", into, 0, 2); }), "the saved 'm' must be from 0 to 2, got 3");
  state["m"].value[1] = NAN;
  EXPECT_EQ(error_of([&] { get(state, "m", into, 0, 9); }), "the saved 'm' must be from 0 to 9, got nan");
}

TEST(State, APrefixIsAddedAndTakenAway) {
  State part, all;
  put(part, "m", 1.0, Scope::all_equal);
  put(all, "rules", 2.0, Scope::all_equal);
  add_prefixed(all, "rule.", part);
  add_prefixed(all, "rule.inner.", part);
  EXPECT_EQ(get_double(all, "rule.m"), 1);
  const State back = with_prefix(all, "rule.");
  EXPECT_EQ(back.size(), 2u);
  EXPECT_EQ(get_double(back, "m"), 1);
  EXPECT_EQ(get_double(with_prefix(back, "inner."), "m"), 1);
}

TEST(State, IsFiniteUnlessANumberInItIsNot) {
  State state = {{"x", {at::zeros({3}), Scope::per_replica}}, {"t", {at::zeros({2}, at::kLong), Scope::all_equal}}};
  put(state, "gap", 1.5, Scope::all_equal);
  EXPECT_TRUE(is_finite(state));
  for (const double wrong : {INFINITY, -INFINITY, NAN}) {
    State bad = state;
    bad["x"].value = at::zeros({3});
    bad["x"].value[1] = wrong;
    EXPECT_FALSE(is_finite(bad));
    State scalar = state;
    put(scalar, "gap", wrong, Scope::all_equal);
    EXPECT_FALSE(is_finite(scalar));
  }
}

}  // namespace
}  // namespace thinwire
