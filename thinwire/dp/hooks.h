// Calls back when a parameter's gradient is complete, during backward: what lets exchanges overlap with backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace thinwire::dp {

// A hook lives as long as this handle does, and is removed with it; the parameter may go first. Not thread-safe, and
// not to be made or destroyed during a backward.
class GradHook {
 public:
  virtual ~GradHook() = default;
};
using GradHookPtr = std::unique_ptr<GradHook>;

// `ready` is called once a backward, after the gradient was accumulated, on the thread that runs it. A hook that the
// parameter has already (a user's own) is called before it, and is restored when the handle goes. A parameter that
// takes no part in a backward is not reported; what `ready` throws is thrown by backward().
[[nodiscard]] GradHookPtr on_grad_ready(const at::Tensor& parameter, std::function<void()> ready);

}  // namespace thinwire::dp
