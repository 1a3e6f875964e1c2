#include "thinwire/kernels/nadamw.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/numbers.h"

namespace thinwire::kernels {
namespace {

constexpr NadamwStep kStep{
    .moments = {.beta1 = 0.99f, .one_minus_beta1 = 0.01f, .beta2 = 0.999f, .one_minus_beta2 = 0.001f, .eps = 1e-8f},
    .decay = 0.999f,
    .rate_g = 0.002f,
    .rate_m = 0.003f,
    .root = 1.7f};

struct Buffers {
  at::Tensor next, x, g, m, v;
  explicit Buffers(int64_t n)
      : next(at::zeros({n}, at::kFloat)),
        x(numbers(n, "x")),
        g(numbers(n, "g")),
        m(numbers(n, "m")),
        v(numbers(n, "v").square_()) {}

  template <class Kernel>
  void update(Kernel&& kernel, at::Tensor into) {
    kernel(into, x, g, m, v, whole(x), kStep);
  }
};

void plain(const at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, const at::Tensor& first,
           const at::Tensor& second, Range range, const NadamwStep& s) {
  float *next = to.mutable_data_ptr<float>(), *m = first.mutable_data_ptr<float>(),
        *v = second.mutable_data_ptr<float>();
  const float *x = from.const_data_ptr<float>(), *g = gradient.const_data_ptr<float>();
  const Moments b = s.moments;
  for (int64_t i = 0; i < range.numel; ++i) {
    m[i] = b.beta1 * m[i] + b.one_minus_beta1 * g[i];
    v[i] = b.beta2 * v[i] + b.one_minus_beta2 * (g[i] * g[i]);
    next[i] = s.decay * x[i] - (s.rate_g * g[i] + s.rate_m * m[i]) / (std::sqrt(v[i]) * s.root + b.eps);
  }
}

class NadamwKernel : public testing::Test {
  void TearDown() override { at::set_num_threads(threads_); }
  int threads_ = at::get_num_threads();
};

TEST_F(NadamwKernel, EqualsItsPlainDefinitionToTheBitWithOneThreadAndTwo) {
  for (int64_t n : kSizes) {
    Buffers wanted(n);
    wanted.update(plain, wanted.next);
    for (int threads : {1, 2}) {
      at::set_num_threads(threads);
      Buffers got(n);
      got.update(nadamw, got.next);
      EXPECT_TRUE(same_bits(got.next, wanted.next)) << n;
      EXPECT_TRUE(same_bits(got.m, wanted.m)) << n;
      EXPECT_TRUE(same_bits(got.v, wanted.v)) << n;
      EXPECT_TRUE(same_bits(got.x, wanted.x)) << n;
    }
  }
}

TEST_F(NadamwKernel, InPlaceGivesTheSameBits) {
  for (int64_t n : kSizes) {
    Buffers apart(n), in_place(n);
    apart.update(nadamw, apart.next);
    in_place.update(nadamw, in_place.x);
    EXPECT_TRUE(same_bits(in_place.x, apart.next)) << n;
  }
}

TEST_F(NadamwKernel, ZerosStayZeros) {
  Buffers b(1025);
  for (at::Tensor t : {b.x, b.g, b.m, b.v}) t.zero_();
  b.update(nadamw, b.x);
  for (at::Tensor t : {b.x, b.m, b.v}) EXPECT_TRUE(same_bits(t, at::zeros({1025}, at::kFloat)));
}

}  // namespace
}  // namespace thinwire::kernels
