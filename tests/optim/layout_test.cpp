#include "thinwire/optim/layout.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace thinwire::optim {
namespace {

using Units = std::vector<std::vector<at::Tensor>>;

at::Tensor tensor(std::vector<int64_t> sizes) { return at::empty(sizes, at::kFloat); }

// Two matrices, then a matrix and two vectors, then a vector.
Units example() {
  return {{tensor({10, 10}), tensor({30, 30})}, {tensor({64, 32}), tensor({5}), tensor({})}, {tensor({1025})}};
}

TEST(Layout, PiecesLieOneAfterTheOtherWithinAUnit) {
  const Layout layout = make_layout(example());
  const Piece known[] = {{0, 100, 0, kDecayed},    {100, 900, 1, kDecayed},  {1024, 2048, 2, kDecayed},
                         {3072, 5, 3, kUndecayed}, {3077, 1, 4, kUndecayed}, {4096, 1025, 5, kUndecayed}};
  ASSERT_EQ(layout.pieces.size(), std::size(known));
  for (size_t i = 0; i < std::size(known); ++i) {
    EXPECT_EQ(layout.pieces[i].at, known[i].at) << i;
    EXPECT_EQ(layout.pieces[i].numel, known[i].numel) << i;
    EXPECT_EQ(layout.pieces[i].tensor, known[i].tensor) << i;
    EXPECT_EQ(layout.pieces[i].group, known[i].group) << i;
  }
  EXPECT_EQ(layout.ranges, (std::vector<BlockRange>{{.first = 0, .count = 6}}));
  EXPECT_EQ(layout.tensors, 6);
  EXPECT_EQ(layout.numel, 6 * kBlock);
}

TEST(Layout, EveryUnitStartsOnABlock) {
  for (int64_t size : {1, 1023, 1024, 1025, 3000}) {
    const Layout layout = make_layout({{tensor({size})}, {tensor({size, 1}), tensor({7})}, {tensor({size})}});
    for (size_t first : {0, 1, 3}) EXPECT_EQ(layout.pieces[first].at % 1024, 0) << size;
    EXPECT_EQ(layout.numel % 1024, 0) << size;
    EXPECT_LT(layout.numel - (layout.pieces.back().at + size), 1024) << size;
  }
}

TEST(Layout, NothingTakesNoRoom) {
  EXPECT_EQ(make_layout({}).numel, 0);
  EXPECT_EQ(make_layout({{}, {}}).numel, 0);
  const Layout layout = make_layout({{}, {tensor({0, 3})}, {tensor({4})}});
  EXPECT_EQ(layout.pieces.back().at, 0);
  EXPECT_EQ(layout.numel, 1024);
}

TEST(Layout, SpansJoinNeighboursOfOneGroupOverThePadding) {
  const std::vector<Span> joined = spans(make_layout(example()));
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].at, 0);
  EXPECT_EQ(joined[0].numel, 3072);  // 24 of them padding
  EXPECT_EQ(joined[0].group, kDecayed);
  EXPECT_EQ(joined[1].at, 3072);
  EXPECT_EQ(joined[1].numel, 4096 + 1025 - 3072);
  EXPECT_EQ(joined[1].group, kUndecayed);
}

TEST(Layout, SpansHoldEveryPieceAndNeverTwoGroups) {
  Units units;
  for (int64_t i = 1; i < 40; ++i) units.push_back({i % 3 ? tensor({i, 50}) : tensor({i}), tensor({i % 5 + 1})});
  const Layout layout = make_layout(units);
  const std::vector<Span> joined = spans(layout);
  for (size_t i = 1; i < joined.size(); ++i) {
    EXPECT_NE(joined[i - 1].group, joined[i].group);
    EXPECT_LE(joined[i - 1].at + joined[i - 1].numel, joined[i].at);
  }
  for (const Piece& piece : layout.pieces) {
    const auto holds = [&](const Span& s) {
      return s.at <= piece.at && piece.at + piece.numel <= s.at + s.numel && s.group == piece.group;
    };
    EXPECT_EQ(std::count_if(joined.begin(), joined.end(), holds), 1) << piece.tensor;
  }
}

TEST(Layout, WithoutPiecesThereAreNoSpans) { EXPECT_TRUE(spans(make_layout({{}})).empty()); }

}  // namespace
}  // namespace thinwire::optim
