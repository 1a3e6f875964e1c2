#include "thinwire/kernels/sgd.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "thinwire/base/random.h"

namespace thinwire::kernels {
namespace {

constexpr int64_t kSizes[] = {0, 1, 7, 511, 512, 513, 1023, 1025, 65535, 65537, 1'000'000};
constexpr SgdStep kStep{.lr = 0.03f, .momentum = 0.9f, .weight_decay = 0.01f};

at::Tensor numbers(int64_t n, const char* name) { return at::empty({n}, at::kFloat).normal_(0, 1, generator(1, name)); }
bool same_bits(const at::Tensor& a, const at::Tensor& b) { return at::equal(a.view(at::kInt), b.view(at::kInt)); }

struct Buffers {
  at::Tensor next, x, g, m;
  explicit Buffers(int64_t n)
      : next(at::zeros({n}, at::kFloat)), x(numbers(n, "x")), g(numbers(n, "g")), m(numbers(n, "m")) {}

  template <class Kernel>
  void update(Kernel&& kernel, at::Tensor into, bool momentum) {
    kernel(into, x, g, momentum ? m : at::Tensor(), whole(x), kStep);
  }
};

void plain(const at::Tensor& to, const at::Tensor& from, const at::Tensor& gradient, const at::Tensor& momentum,
           Range range, const SgdStep& s) {
  float *next = to.mutable_data_ptr<float>(), *m = momentum.defined() ? momentum.mutable_data_ptr<float>() : nullptr;
  const float *x = from.const_data_ptr<float>(), *g = gradient.const_data_ptr<float>();
  for (int64_t i = 0; i < range.numel; ++i) {
    const float d = g[i] + s.weight_decay * x[i];
    const float step = m ? s.momentum * m[i] + d : d;
    if (m) m[i] = step;
    next[i] = x[i] - s.lr * step;
  }
}

class SgdKernel : public testing::Test {
  void TearDown() override { at::set_num_threads(threads_); }
  int threads_ = at::get_num_threads();
};

TEST_F(SgdKernel, EqualsItsPlainDefinitionToTheBitWithOneThreadAndTwo) {
  for (bool momentum : {false, true}) {
    for (int64_t n : kSizes) {
      Buffers wanted(n);
      wanted.update(plain, wanted.next, momentum);
      for (int threads : {1, 2}) {
        at::set_num_threads(threads);
        Buffers got(n);
        got.update(sgd, got.next, momentum);
        EXPECT_TRUE(same_bits(got.next, wanted.next)) << n;
        EXPECT_TRUE(same_bits(got.m, wanted.m)) << n;
        EXPECT_TRUE(same_bits(got.x, wanted.x)) << n;
      }
    }
  }
}

TEST_F(SgdKernel, InPlaceGivesTheSameBits) {
  for (bool momentum : {false, true}) {
    for (int64_t n : kSizes) {
      Buffers apart(n), in_place(n);
      apart.update(sgd, apart.next, momentum);
      in_place.update(sgd, in_place.x, momentum);
      EXPECT_TRUE(same_bits(in_place.x, apart.next)) << n;
    }
  }
}

TEST_F(SgdKernel, ZerosStayZeros) {
  for (bool momentum : {false, true}) {
    Buffers b(1025);
    for (at::Tensor t : {b.x, b.g, b.m}) t.zero_();
    b.update(sgd, b.x, momentum);
    for (at::Tensor t : {b.x, b.m}) EXPECT_TRUE(same_bits(t, at::zeros({1025}, at::kFloat)));
  }
}

}  // namespace
}  // namespace thinwire::kernels
