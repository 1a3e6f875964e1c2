#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <cstdio>

#include "thinwire/kernels/reduce.h"

int main() {
  const double sum = thinwire::kernels::sum_squares(at::ones({1000}) * 2);
  std::printf("%g\n", sum);
  return sum == 4000 ? 0 : 1;
}
