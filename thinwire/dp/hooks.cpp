#include "thinwire/dp/hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace thinwire::dp {
namespace {

class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(std::function<void()> ready) : ready_(std::move(ready)) {}
  void operator()(const at::Tensor&) override { ready_(); }

 private:
  std::function<void()> ready_;
};

}  // namespace

void on_grad_ready(const at::Tensor& parameter, std::function<void()> ready) {
  torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Hook>(std::move(ready)));
}

}  // namespace thinwire::dp
