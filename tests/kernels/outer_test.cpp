#include "thinwire/kernels/outer.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "thinwire/base/random.h"
#include "thinwire/kernels/reduce.h"

namespace thinwire::kernels {
namespace {

constexpr int64_t kSizes[] = {0, 1, 7, 511, 512, 513, 1023, 1025, 65535, 65537, 1'000'000};

at::Tensor numbers(int64_t n, const char* name) { return at::empty({n}, at::kFloat).normal_(0, 1, generator(1, name)); }
bool same_bits(const at::Tensor& a, const at::Tensor& b) { return at::equal(a.view(at::kInt), b.view(at::kInt)); }

struct Buffers {
  at::Tensor x, z, v, a, start;

  static Buffers random(int64_t n) {
    return {numbers(n, "x"), numbers(n, "z"), numbers(n, "v"), numbers(n, "a"), numbers(n, "start")};
  }
  Buffers copy() const { return {x.clone(), z.clone(), v.clone(), a.clone(), start.clone()}; }
  std::vector<at::Tensor> all() const { return {x, z, v, a, start}; }
  OuterBuffers with(bool momentum, bool starts) const {
    return {x, z, momentum ? v : at::Tensor(), a, starts ? start : at::Tensor()};
  }
};

// The header's formulas, one element at a time. Returns the sum of the squared moves.
double plain(const OuterBuffers& buffers, int64_t n, const OuterStep& s) {
  auto p = [](const at::Tensor& t) { return t.defined() ? t.mutable_data_ptr<float>() : nullptr; };
  const struct {
    float *x, *z, *v, *a, *start;
  } b{p(buffers.x), p(buffers.z), p(buffers.v), p(buffers.a), p(buffers.start)};
  at::Tensor moves = at::zeros({n}, at::kFloat);
  float* moved = moves.mutable_data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    const float z = b.z[i], start = b.start ? b.start[i] : z;
    if (s.apply) {
      const float a = s.scale * b.a[i];
      const float v = std::clamp(b.v ? s.decay * b.v[i] + a : a, -s.bound, s.bound);
      if (b.v) b.v[i] = v;
      moved[i] = s.nesterov ? s.rate * (s.beta * v + a) : s.rate * v;
      b.z[i] = z + moved[i];
    }
    if (!s.launch) {
      b.x[i] = b.z[i];
      continue;
    }
    const float p = b.x[i] - start;
    b.a[i] = p;
    b.x[i] = b.start ? b.z[i] + s.keep * p : b.z[i];
    if (b.start) b.start[i] = b.x[i];
  }
  return sum_squares(moves);
}

// Every combination of apply, turn, nesterov, with or without v and start.
template <class F>
void for_all_flags(F&& f) {
  for (int flags = 0; flags < 32; ++flags) {
    SCOPED_TRACE(testing::Message() << "apply " << (flags & 1) << " turn " << (flags >> 1 & 1) << " nesterov "
                                    << (flags >> 2 & 1) << " v " << (flags >> 3 & 1) << " start " << (flags >> 4));
    const OuterStep step{.apply = (flags & 1) != 0,
                         .launch = (flags & 2) != 0,
                         .nesterov = (flags & 4) != 0,
                         .decay = 0.7f,
                         .scale = 0.6f,
                         .bound = 0.8f,
                         .rate = 1.1f,
                         .beta = 0.9f,
                         .keep = 0.25f};
    f(step, (flags & 8) != 0, (flags & 16) != 0);
  }
}

class Outer : public testing::Test {
  void TearDown() override { at::set_num_threads(threads_); }
  int threads_ = at::get_num_threads();
};

TEST_F(Outer, EqualsItsPlainDefinitionToTheBitWithOneThreadAndTwo) {
  for (int64_t n : kSizes) {
    const Buffers before = Buffers::random(n);
    for_all_flags([&](const OuterStep& step, bool momentum, bool starts) {
      const Buffers wanted = before.copy();
      const double squares = plain(wanted.with(momentum, starts), n, step);
      for (int threads : {1, 2}) {
        at::set_num_threads(threads);
        const Buffers got = before.copy();
        EXPECT_EQ(outer_update(got.with(momentum, starts), {0, n}, step), squares) << n;
        for (size_t i = 0; i < got.all().size(); ++i)
          EXPECT_TRUE(same_bits(got.all()[i], wanted.all()[i])) << n << ", buffer " << i;
      }
    });
  }
}

TEST_F(Outer, ZerosStayZeros) {
  for_all_flags([](const OuterStep& step, bool momentum, bool starts) {
    const Buffers b = Buffers::random(1025);
    for (at::Tensor t : b.all()) t.zero_();
    EXPECT_EQ(outer_update(b.with(momentum, starts), {0, 1025}, step), 0);
    for (at::Tensor t : b.all()) EXPECT_TRUE(same_bits(t, at::zeros({1025}, at::kFloat)));
  });
}

TEST_F(Outer, TheDefaultsAverage) {
  const Buffers b = Buffers::random(513);
  const at::Tensor wanted = b.z + b.a;
  outer_update(b.with(false, false), {0, 513}, {});
  EXPECT_TRUE(same_bits(b.z, wanted));
  EXPECT_TRUE(same_bits(b.x, wanted));
}

TEST_F(Outer, WithoutABoundNothingIsClamped) {
  const Buffers b = Buffers::random(7);
  b.a.fill_(1e30f);
  outer_update(b.with(true, false), {0, 7}, {});
  EXPECT_TRUE(same_bits(b.v, at::full({7}, 1e30f)));
}

}  // namespace
}  // namespace thinwire::kernels
