#include "thinwire/kernels/threshold.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "tests/kernels/numbers.h"

namespace thinwire::kernels {
namespace {

// The definitions, one number at a time.
bool plain_reaches(float v, float threshold) { return std::fabs(v) >= threshold; }
bool marked(const std::vector<uint8_t>& bits, int64_t i) { return (bits[i / 8] >> (7 - i % 8) & 1) != 0; }

class ThresholdKernel : public testing::Test {
 protected:
  void TearDown() override { at::set_num_threads(threads_); }

  void compare(const at::Tensor& tensor, float threshold) {
    const int64_t n = tensor.numel();
    const float* v = tensor.const_data_ptr<float>();
    const uint32_t least = std::bit_cast<uint32_t>(threshold);
    std::vector<uint8_t> bits((n + 7) / 8, 0xff);
    mark_reaching(tensor, least, on(bits));
    std::vector<float> wanted, wanted_out(n);
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(marked(bits, i), plain_reaches(v[i], threshold)) << n << " " << i;
      if (!plain_reaches(v[i], threshold)) continue;
      wanted.push_back(v[i]);
      wanted_out[i] = v[i];
    }
    for (int64_t i = n; i < 8 * std::ssize(bits); ++i) EXPECT_FALSE(marked(bits, i)) << "behind the last of " << n;
    EXPECT_EQ(count_reaching(tensor, least), std::ssize(wanted)) << n;
    ASSERT_EQ(count_marked(on(bits), n), std::ssize(wanted)) << n;
    std::vector<float> values(wanted.size(), 7.0f), out(n, 7.0f);
    pick_marked(tensor, on(bits), on(values));
    EXPECT_EQ(values, wanted) << n;
    spread_marked(on(values), on(bits), on(out));
    EXPECT_EQ(out, wanted_out) << n;
  }

 private:
  const int threads_ = at::get_num_threads();
};

TEST_F(ThresholdKernel, EqualsItsPlainDefinition) {
  for (int threads : {1, 2}) {
    at::set_num_threads(threads);
    for (int64_t n : {0, 1, 7, 8, 9, 1023, 1025, 65535, 65537, 100'000})
      for (float threshold : {0.0f, std::bit_cast<float>(1u), 0.5f, 3.0f, 100.0f}) {
        compare(numbers(n, "value"), threshold);
        compare(awkward(n), threshold);
      }
  }
}

TEST_F(ThresholdKernel, IsReachedByWhatJustReachesIt) {
  const std::vector v = {0.5f, -0.5f, std::nextafter(0.5f, 0.0f), 0.0f, -0.0f};
  EXPECT_EQ(count_reaching(on(v), std::bit_cast<uint32_t>(0.5f)), 2);
  EXPECT_EQ(count_reaching(on(v), 1), 3) << "all but the zeros";
  EXPECT_EQ(count_reaching(on(v), 0), 5);
}

TEST_F(ThresholdKernel, CountsWhatIsNotFinite) {
  const std::vector<float> v = {1, INFINITY, -INFINITY, NAN, -NAN, 3.4e38f};
  EXPECT_EQ(count_reaching(on(v), kNotFinite), 4);
  EXPECT_EQ(first_reaching(on(v), kNotFinite), 1);
  EXPECT_EQ(first_reaching(on(std::vector<float>{1, 2}), kNotFinite), -1);
}

TEST_F(ThresholdKernel, MarksTheFirstOnTop) {
  const std::vector<float> v = {1, 0, 0, 0, 0, 0, 0, 1, 0, 1};
  const std::vector<uint8_t> bits(2);
  mark_reaching(on(v), 1, on(bits));
  EXPECT_EQ(bits[0], 0x81);
  EXPECT_EQ(bits[1], 0x40);
}

TEST_F(ThresholdKernel, SpreadsWhatBelongsToAnotherVectorsMarks) {
  const std::vector<float> v = {1, 0, 2, 0}, other = {5, 6, 7, 8}, values(2), out(4);
  const std::vector<uint8_t> bits(1);
  mark_reaching(on(v), 1, on(bits));
  pick_marked(on(other), on(bits), on(values));
  spread_marked(on(values), on(bits), on(out));
  EXPECT_EQ(out, (std::vector<float>{5, 0, 7, 0}));
}

}  // namespace
}  // namespace thinwire::kernels
