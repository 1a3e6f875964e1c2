#include "thinwire/kernels/reduce.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "thinwire/base/errors.h"
#include "thinwire/base/random.h"

namespace thinwire::kernels {
namespace {

constexpr int64_t kSizes[] = {0, 1, 7, 511, 512, 513, 1023, 1025, 65535, 65537, 1'000'000};

at::Tensor numbers(int64_t n, const char* name) { return at::empty({n}, at::kFloat).normal_(0, 1, generator(1, name)); }

// The order of additions, said plainly: element i of a task goes to lane i mod 8; lanes are added in pairs, tasks in
// turn.
double plain_sum_squares(const at::Tensor& x) {
  const float* p = x.const_data_ptr<float>();
  double total = 0;
  for (int64_t begin = 0; begin < x.numel(); begin += kTask) {
    double lane[8] = {};
    for (int64_t i = begin; i < std::min(x.numel(), begin + kTask); ++i) lane[i % 8] += double{p[i]} * double{p[i]};
    total += ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
  }
  return total;
}

class Reduce : public testing::Test {
  void TearDown() override { at::set_num_threads(threads_); }
  int threads_ = at::get_num_threads();
};

TEST_F(Reduce, SumsEqualTheirPlainDefinitionToTheBitWithOneThreadAndTwo) {
  for (int64_t n : kSizes) {
    const at::Tensor x = numbers(n, "x"), y = numbers(n, "y");
    const double squares = plain_sum_squares(x), differences = plain_sum_squares(x - y);
    for (int threads : {1, 2}) {
      at::set_num_threads(threads);
      EXPECT_EQ(sum_squares(x), squares) << n;
      EXPECT_EQ(sum_squared_differences(x, y), differences) << n;
    }
  }
}

TEST_F(Reduce, SumsAreExactWhereFp32WouldStandStill) {
  at::Tensor x = at::ones({1'000'000}, at::kFloat);
  x[0] = 4096;  // its square is 2^24, where adding 1 in fp32 changes nothing
  float fp32 = 0;
  for (int64_t i = 0; i < x.numel(); ++i) fp32 += x.const_data_ptr<float>()[i] * x.const_data_ptr<float>()[i];
  EXPECT_EQ(fp32, 0x1p24f);
  EXPECT_EQ(sum_squares(x), 0x1p24 + 999'999);
  EXPECT_EQ(sum_squared_differences(x, at::zeros_like(x)), 0x1p24 + 999'999);
}

TEST_F(Reduce, SquaresMayExceedFp32) {
  EXPECT_EQ(sum_squares(at::ones({3}, at::kFloat) * 0x1p100f), 3 * 0x1p200);
  EXPECT_EQ(sum_squares(at::ones({3}, at::kFloat) * 0x1p-100f), 3 * 0x1p-200);
}

TEST_F(Reduce, ZerosSumToZeroAndEqualVectorsDoNotDiffer) {
  const at::Tensor x = numbers(1025, "x");
  EXPECT_EQ(sum_squares(at::zeros({1025}, at::kFloat)), 0);
  EXPECT_EQ(sum_squared_differences(x, x), 0);
}

TEST_F(Reduce, AWrongCallSaysWhatWasWantedAndWhatCame) {
  const auto error_of = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const std::exception& error) {
      return one_line(error);
    }
    return "no error";
  };
  const at::Tensor x = at::zeros({4, 4}, at::kFloat);
  EXPECT_EQ(error_of([&] { sum_squares(x.to(at::kDouble)); }), "[kernels] wanted contiguous fp32, got Double");
  EXPECT_EQ(error_of([&] { sum_squares(x.t()); }), "[kernels] wanted contiguous fp32, got strided Float");
  EXPECT_EQ(error_of([&] { sum_squared_differences(x, x[0]); }), "[kernels] wanted equal lengths, got 16 and 4");
  EXPECT_EQ(error_of([&] { sum_squares(x, {10, 7}); }), "[kernels] wanted elements [10, 17) of a vector of 16");
  EXPECT_EQ(error_of([&] { sum_squares(at::Tensor()); }), "[kernels] wanted a tensor, got none");
  EXPECT_EQ(error_of([&] { sum_squares(at::empty({4}, at::device(at::kMeta))); }),
            "[kernels] wanted a tensor on the CPU, got one on meta: this build has no CUDA");
}

}  // namespace
}  // namespace thinwire::kernels
