// Slice kernels against their definitions, element by element.
#include "thinwire/kernels/slice.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "numbers.h"

namespace thinwire::kernels {
namespace {

// Every third stretch of `block` numbers; the last one may be short.
std::vector<Part> every_third(int64_t n, int64_t block, int64_t first) {
  std::vector<Part> parts;
  int64_t packed = 0;
  for (int64_t at = first * block; at < n; at += 3 * block) {
    const int64_t numel = std::min(block, n - at);
    parts.push_back({.at = at, .packed = packed, .numel = numel, .fresh = at % 2 == 0});
    packed += numel;
  }
  return parts;
}

int64_t numel(Parts parts) { return parts.empty() ? 0 : parts.back().packed + parts.back().numel; }

float* data(const at::Tensor& t) { return t.mutable_data_ptr<float>(); }

TEST(Slice, GatherAndScatterMoveExactlyTheSlice) {
  for (int64_t n : kSizes) {
    const auto parts = every_third(n, 1024, 1);
    const at::Tensor flat = awkward(n), packed = at::zeros({numel(parts)}), back = at::zeros({n});
    slice_gather(parts, flat, packed);
    slice_scatter(parts, packed, back);
    at::Tensor wanted = at::zeros({n});
    for (const auto& part : parts)
      for (int64_t i = part.at; i < part.at + part.numel; ++i) data(wanted)[i] = data(flat)[i];
    EXPECT_TRUE(same_bits(back, wanted)) << n;
  }
}

TEST(Slice, TakingKeepsTheWeightsAndSendsTheDifference) {
  for (int64_t n : kSizes) {
    const auto parts = every_third(n, 100, 0);
    const at::Tensor x = numbers(n, "x"), z = numbers(n, "z"), y = at::zeros({numel(parts)}), sent = at::zeros_like(y);
    for (bool anchored : {true, false}) {
      slice_take(parts, x, anchored ? z : at::Tensor(), y, sent);
      for (const auto& part : parts)
        for (int64_t i = 0; i < part.numel; ++i) {
          const float value = data(x)[part.at + i];
          ASSERT_EQ(data(y)[part.packed + i], value);
          ASSERT_EQ(data(sent)[part.packed + i], anchored ? value - data(z)[part.at + i] : value);
        }
    }
  }
}

TEST(Slice, EveryMergeEqualsItsDefinition) {
  for (Merge merge : {Merge::overwrite, Merge::delta, Merge::ema, Merge::anchor})
    for (bool momentum : {false, true})
      for (int64_t n : kSizes) {
        const auto parts = every_third(n, 1024, 2);
        const int64_t packed = numel(parts);
        const at::Tensor answer = numbers(packed, "answer"), y = numbers(packed, "y"), jump = at::zeros({packed});
        const at::Tensor x = numbers(n, "x"), e = numbers(n, "e"), z = numbers(n, "z"), m = numbers(n, "m");
        const at::Tensor x0 = x.clone(), e0 = e.clone(), z0 = z.clone(), m0 = m.clone();
        const SliceStep step{.merge = merge, .mu = 0.75f, .one_minus_mu = 0.25f, .alpha = 0.5f, .beta = 0.25f};
        slice_merge(parts,
                    {.x = x, .answer = answer, .y = y, .e = e, .z = z, .m = momentum ? m : at::Tensor(), .jump = jump},
                    step);
        for (const auto& part : parts)
          for (int64_t k = 0; k < part.numel; ++k) {
            const int64_t i = part.at + k, j = part.packed + k;
            float wx = data(x0)[i], we = data(e0)[i], wz = data(z0)[i], wm = data(m0)[i];
            const float a = data(answer)[j], left = data(y)[j];
            if (merge == Merge::overwrite) wx = a;
            if (merge == Merge::delta) wx += a - left;
            if (merge == Merge::ema) {
              we = part.fresh ? wx - left : 0.75f * we + 0.25f * (wx - left);
              wx = a + we;
            }
            if (merge == Merge::anchor) {
              if (momentum) wm = 0.25f * wm + a;
              wz += 0.5f * (momentum ? wm : a);
              wx += wz - left;
            }
            ASSERT_EQ(data(x)[i], wx);
            ASSERT_EQ(data(e)[i], we);
            ASSERT_EQ(data(z)[i], wz);
            ASSERT_EQ(data(m)[i], wm);
            ASSERT_EQ(data(jump)[j], wx - data(x0)[i]);
          }
        for (const auto& part : parts)
          for (const at::Tensor& t : {x, x0}) t.narrow(0, part.at, part.numel).zero_();
        EXPECT_TRUE(same_bits(x, x0)) << "wrote beside the slice, n = " << n;
      }
}

TEST(Slice, AnAnswerThatEqualsWhatWasSentChangesNothingUnderDelta) {
  const auto parts = every_third(300'001, 1024, 1);
  const at::Tensor x = numbers(300'001, "x"), before = x.clone(), y = numbers(numel(parts), "y");
  slice_merge(parts, {.x = x, .answer = y, .y = y}, {.merge = Merge::delta});
  EXPECT_TRUE(same_bits(x, before));
}

TEST(Slice, JumpsAreCarriedToThePartsThatSlicesShare) {
  const std::vector<Part> from = {{0, 0, 10}, {30, 10, 10}, {50, 20, 5}}, to = {{10, 0, 10}, {30, 10, 10}, {50, 20, 5}};
  const at::Tensor jump = numbers(25, "jump"), y = numbers(25, "y"), before = y.clone();
  slice_carry(from, jump, to, y);
  for (int64_t i = 0; i < 25; ++i) EXPECT_EQ(data(y)[i], data(before)[i] + (i < 10 ? 0 : data(jump)[i]));
}

}  // namespace
}  // namespace thinwire::kernels
