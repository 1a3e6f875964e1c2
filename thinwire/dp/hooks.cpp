#include "thinwire/dp/hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace thinwire::dp {
namespace {

using torch::autograd::PostAccumulateGradHook;

// Autograd has room for one hook a tensor, so each keeps the one before it. One whose handle is gone only passes the
// call on: it may be in the middle of the chain.
class Chained final : public PostAccumulateGradHook {
 public:
  Chained(std::unique_ptr<PostAccumulateGradHook> before, std::shared_ptr<std::function<void()>> ready)
      : before(std::move(before)), ready(std::move(ready)) {}
  void operator()(const at::Tensor& tensor) override {
    if (before) (*before)(tensor);
    if (*ready) (*ready)();
  }
  std::unique_ptr<PostAccumulateGradHook> before;
  const std::shared_ptr<std::function<void()>> ready;
};

class Handle final : public GradHook {
 public:
  Handle(at::Tensor parameter, std::function<void()> ready)
      : parameter_(std::move(parameter)), ready_(std::make_shared<std::function<void()>>(std::move(ready))) {
    torch::autograd::impl::materialize_autograd_meta(parameter_);
    auto& slot = torch::autograd::impl::post_acc_grad_hooks(parameter_);
    torch::autograd::impl::set_post_acc_grad_hooks(parameter_, std::make_unique<Chained>(std::move(slot), ready_));
  }
  ~Handle() override {
    *ready_ = nullptr;
    // Those at the end of the chain that have nothing left to call go.
    auto& slot = torch::autograd::impl::post_acc_grad_hooks(parameter_);
    while (auto* last = dynamic_cast<Chained*>(slot.get())) {
      if (*last->ready) break;
      auto before = std::move(last->before);
      slot = std::move(before);
    }
  }

 private:
  const at::Tensor parameter_;
  const std::shared_ptr<std::function<void()>> ready_;
};

}  // namespace

GradHookPtr on_grad_ready(const at::Tensor& parameter, std::function<void()> ready) {
  return std::make_unique<Handle>(parameter, std::move(ready));
}

}  // namespace thinwire::dp
