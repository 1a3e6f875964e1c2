// Calls back when a parameter's gradient is complete, during backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace thinwire::dp {

// `ready` is called once a backward, after the gradient was accumulated, on the thread that runs it.
void on_grad_ready(const at::Tensor& parameter, std::function<void()> ready);

}  // namespace thinwire::dp
