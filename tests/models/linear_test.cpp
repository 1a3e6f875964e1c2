#include "thinwire/models/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "thinwire/base/deferred_work.h"
#include "thinwire/base/random.h"

namespace thinwire::models {
namespace {

struct Pass {
  at::Tensor output, input_grad, weight_grad;
};

at::Tensor draw(std::vector<int64_t> sizes, const char* name) {
  return at::randn(sizes, generator(3, name), at::TensorOptions(at::kFloat));
}

template <class F>
Pass pass(F&& linear) {
  const at::Tensor x = draw({3, 5, 16}, "x").requires_grad_(), w = draw({24, 16}, "w").requires_grad_();
  w.mutable_grad() = at::zeros_like(w);
  const at::Tensor y = linear(x, w);
  y.backward(draw({3, 5, 24}, "g"));
  return {y.detach(), x.grad(), w.grad()};
}

TEST(Linear, WhoseWeightGradientIsPutOffGivesTheSameBits) {
  const Pass plain = pass([](const auto& x, const auto& w) { return at::linear(x, w); });
  DeferredWork later;
  const Pass deferred = pass(linear);
  EXPECT_TRUE(deferred.output.equal(plain.output));
  EXPECT_TRUE(deferred.input_grad.equal(plain.input_grad));
  EXPECT_TRUE(deferred.weight_grad.equal(at::zeros_like(plain.weight_grad))) << "not yet";
  const auto jobs = later.take();
  ASSERT_EQ(jobs.size(), 1);
  for (const auto& job : jobs) job();
  EXPECT_TRUE(deferred.weight_grad.equal(plain.weight_grad));
}

TEST(Linear, PutsNothingOffUnlessAsked) {
  const Pass plain = pass([](const auto& x, const auto& w) { return at::linear(x, w); });
  EXPECT_TRUE(pass(linear).weight_grad.equal(plain.weight_grad));
}

TEST(DeferredWork, KeepsWhatIsPutOffWhileItIsOpenAndOnlyOnItsThread) {
  int done = 0;
  defer([&] { ++done; });
  EXPECT_EQ(done, 1);
  {
    DeferredWork outer;
    defer([&] { ++done; });
    {
      DeferredWork inner;
      defer([&] { ++done; });
      EXPECT_EQ(inner.take().size(), 1);
    }
    EXPECT_EQ(done, 1);
    for (const auto& job : outer.take()) job();
    EXPECT_EQ(done, 2) << "the inner one's was dropped with it";
    EXPECT_TRUE(outer.take().empty());
  }
  EXPECT_FALSE(DeferredWork::is_open());
}

}  // namespace
}  // namespace thinwire::models
