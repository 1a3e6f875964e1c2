#include "thinwire/kernels/top_k.h"

#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "tests/kernels/numbers.h"

namespace thinwire::kernels {
namespace {

// The definition: sort by magnitude, earlier first, take k, put them back in order.
std::vector<uint32_t> plain_indices(const std::vector<float>& c, int64_t k) {
  std::vector<uint32_t> order(c.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) { return std::fabs(c[a]) > std::fabs(c[b]); });
  order.resize(k);
  std::ranges::sort(order);
  return order;
}

void compare(const at::Tensor& value, int64_t k) {
  const int64_t n = value.numel();
  at::Tensor error = numbers(n, "error"), before = error.clone(), scratch = at::zeros_like(value);
  std::vector<float> c(n), values(k);
  std::vector<uint32_t> indices(k);
  for (int64_t i = 0; i < n; ++i) c[i] = value.const_data_ptr<float>()[i] + before.const_data_ptr<float>()[i];
  ASSERT_EQ(top_k_encode(value.const_data_ptr<float>(), error.mutable_data_ptr<float>(), n, k,
                         scratch.mutable_data_ptr<float>(), indices.data(), values.data()),
            -1);
  EXPECT_EQ(indices, plain_indices(c, k)) << n << " " << k;
  for (int64_t j = 0; j < k; ++j) {
    EXPECT_EQ(values[j], c[indices[j]]);
    c[indices[j]] = 0;
  }
  EXPECT_TRUE(std::ranges::equal(c, std::span(error.const_data_ptr<float>(), n))) << "what was not sent is the error";
}

TEST(TopK, EqualsItsPlainDefinition) {
  for (int64_t n : {1, 7, 1023, 30'000})
    for (int64_t k : {int64_t{0}, int64_t{1}, n / 100, n / 2, n}) compare(numbers(n, "value"), k);
}

TEST(TopK, TakesTheEarlierOfEqualMagnitudes) {
  const float value[] = {1, -2, 2, 0, -2, 2};
  float scratch[6], values[3];
  uint32_t indices[3];
  top_k_encode(value, nullptr, 6, 3, scratch, indices, values);
  EXPECT_EQ(std::vector(indices, indices + 3), (std::vector<uint32_t>{1, 2, 4}));
  EXPECT_EQ(values[2], -2);
}

TEST(TopK, SaysWhereANumberIsNotFiniteAndChangesNothing) {
  const float value[] = {1, 2, NAN};
  float error[] = {3, 4, 5}, scratch[3], values[1];
  uint32_t index;
  EXPECT_EQ(top_k_encode(value, error, 3, 1, scratch, &index, values), 2);
  EXPECT_EQ(error[0], 3);
}

TEST(KthMagnitude, IsExactForNumbersOfAllSizes) {
  const at::Tensor x = awkward(5000);
  std::vector<float> sorted(x.const_data_ptr<float>(), x.const_data_ptr<float>() + 5000);
  std::ranges::sort(sorted, [](float a, float b) { return std::fabs(a) > std::fabs(b); });
  for (int64_t k : {1, 2, 100, 2500, 5000})
    EXPECT_EQ(std::bit_cast<float>(kth_magnitude(x.const_data_ptr<float>(), 5000, k)), std::fabs(sorted[k - 1]));
}

}  // namespace
}  // namespace thinwire::kernels
