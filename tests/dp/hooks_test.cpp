#include "thinwire/dp/hooks.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace thinwire::dp {
namespace {

at::Tensor parameter() { return at::ones({3}).requires_grad_(); }
void backward(const at::Tensor& x) { x.square().sum().backward(); }

TEST(GradHook, IsCalledOnceABackwardAfterTheGradientIsThere) {
  const at::Tensor x = parameter();
  int calls = 0;
  const auto hook = on_grad_ready(x, [&] {
    ++calls;
    EXPECT_TRUE(x.grad().defined());
  });
  backward(x), backward(x);
  EXPECT_EQ(calls, 2);
}

TEST(GradHook, EndsWithItsHandle) {
  const at::Tensor x = parameter();
  int calls = 0;
  auto hook = on_grad_ready(x, [&] { ++calls; });
  hook.reset();
  backward(x);
  EXPECT_EQ(calls, 0);
}

struct UsersOwn final : torch::autograd::PostAccumulateGradHook {
  explicit UsersOwn(int& calls) : calls(calls) {}
  void operator()(const at::Tensor&) override { ++calls; }
  int& calls;
};

TEST(GradHook, LeavesAUsersOwnHookInItsPlace) {
  const at::Tensor x = parameter();
  int theirs = 0, ours = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(x, std::make_unique<UsersOwn>(theirs));
  auto hook = on_grad_ready(x, [&] { ++ours; });
  backward(x);
  EXPECT_EQ(theirs, 1);
  EXPECT_EQ(ours, 1);
  hook.reset();
  backward(x);
  EXPECT_EQ(theirs, 2);
  EXPECT_EQ(ours, 1);
}

TEST(GradHook, SeveralEndInAnyOrder) {
  const at::Tensor x = parameter();
  std::vector<int> calls(3);
  std::vector<GradHookPtr> hooks;
  for (int& count : calls) hooks.push_back(on_grad_ready(x, [&count] { ++count; }));
  backward(x);
  hooks[0].reset(), backward(x);
  hooks[2].reset(), backward(x);
  hooks[1].reset(), backward(x);
  EXPECT_EQ(calls, (std::vector<int>{1, 3, 2}));
  EXPECT_EQ(torch::autograd::impl::post_acc_grad_hooks(x), nullptr) << "nothing is left behind";
}

}  // namespace
}  // namespace thinwire::dp
