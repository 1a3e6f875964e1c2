// A model by its options, one backward, and the size of every gradient (docs/models.md).
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "thinwire/models/model.h"

using namespace thinwire;

int main() {
  const at::Tensor tokens_BT = at::zeros({2, 16}, at::kLong), targets_BT = tokens_BT;
  auto model = models::make_model({.name = "gpt", .layers = 4}, /*vocabulary=*/256, /*seed=*/1);
  model->loss(tokens_BT, targets_BT).backward();
  for (auto& unit : model->units)
    for (auto& p : unit->parameters) fmt::print("{} {}\n", p.name, p.tensor.grad().norm().item<double>());
}
