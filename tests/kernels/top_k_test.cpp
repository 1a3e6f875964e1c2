#include "thinwire/kernels/top_k.h"

#include <ATen/ops/zeros.h>
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

struct Sent {
  std::vector<uint32_t> indices;
  std::vector<float> values;
  explicit Sent(const at::Tensor& body) {
    const auto* words = reinterpret_cast<const uint32_t*>(body.const_data_ptr<uint8_t>());
    const int64_t k = body.numel() / 8;
    for (int64_t i = 0; i < k; ++i) {
      indices.push_back(words[i]);
      values.push_back(std::bit_cast<float>(words[k + i]));
    }
  }
};

void compare(const at::Tensor& value, int64_t k) {
  const int64_t n = value.numel();
  const at::Tensor error = numbers(n, "error"), before = error.clone(), body = at::zeros({8 * k}, at::kByte);
  std::vector<float> c(n);
  for (int64_t i = 0; i < n; ++i) c[i] = value.const_data_ptr<float>()[i] + before.const_data_ptr<float>()[i];
  ASSERT_EQ(top_k_encode(value, error, body), -1);
  const Sent sent(body);
  const auto& [indices, values] = sent;
  at::Tensor arrived = at::zeros({n});
  EXPECT_TRUE(top_k_decode(body, arrived, /*add=*/false));
  for (int64_t j = 0; j < k; ++j) EXPECT_EQ(arrived[indices[j]].item<float>(), values[j]);
  EXPECT_EQ(arrived.count_nonzero().item<int64_t>(), k);
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
  const at::Tensor body = at::zeros({3 * 8}, at::kByte);
  top_k_encode(on(std::vector<float>{1, -2, 2, 0, -2, 2}), {}, body);
  EXPECT_EQ(Sent(body).indices, (std::vector<uint32_t>{1, 2, 4}));
  EXPECT_EQ(Sent(body).values[2], -2);
}

TEST(TopK, SaysWhereANumberIsNotFiniteAndChangesNothing) {
  const std::vector<float> error = {3, 4, 5};
  EXPECT_EQ(top_k_encode(on(std::vector<float>{1, 2, NAN}), on(error), at::zeros({8}, at::kByte)), 2);
  EXPECT_EQ(error[0], 3);
}

TEST(KthMagnitude, IsExactForNumbersOfAllSizes) {
  const at::Tensor x = awkward(5000);
  std::vector<float> sorted(x.const_data_ptr<float>(), x.const_data_ptr<float>() + 5000);
  std::ranges::sort(sorted, [](float a, float b) { return std::fabs(a) > std::fabs(b); });
  for (int64_t k : {1, 2, 100, 2500, 5000})
    EXPECT_EQ(std::bit_cast<float>(kth_magnitude(x, k)), std::fabs(sorted[k - 1]));
}

}  // namespace
}  // namespace thinwire::kernels
