// Your model, your data, your loop; Thinwire moves the weights. Three replicas fit a line over an emulated 10 Mbit/s
// link with CO2, and end on the same weights.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "thinwire/base/random.h"
#include "thinwire/thinwire.h"

using namespace thinwire;

int main() {
  comm::run_world(3, [](std::shared_ptr<comm::TransportGroup> world) {
    // Who talks to whom, and over what.
    auto wire = world->with_transport(
        std::make_shared<net::EmulatedTransport>(world->transport(), net::Link{.rate = 10e6, .latency = 5e-3}));

    // Any parameters will do; they become views of one flat vector.
    at::Tensor weight = at::zeros({1, 4}).set_requires_grad(true), bias = at::zeros({1}).set_requires_grad(true);
    optim::Flat weights({{weight, bias}});

    dp::StrategyOptions options = dp::preset("co2");
    options.periodic.period = 8;
    auto strategy =
        dp::make_strategy(options, weights, {.sync = wire}, optim::OptimOptions{.name = "adamw", .weight_decay = 0});

    const at::Tensor truth = at::empty({1, 4}).normal_(0, 1, generator(1, "truth"));
    double loss_value = 0;
    for (int64_t t = 1; t <= 400; ++t) {
      // Each replica draws data of its own.
      const at::Tensor x = at::empty({32, 4}).normal_(0, 1, generator(t, "data", world->rank()));
      const at::Tensor y = at::linear(x, truth) + 3;
      weights.grad.zero_();
      const at::Tensor loss = at::mse_loss(at::linear(x, weight, bias), y);
      loss.backward();
      loss_value = loss.item<double>();
      const std::vector<double> lr = {0.03, 0.03};
      strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = lr, .t = t});
    }
    strategy->finish(weights.x);

    fmt::print("replica {}: loss {:.4f}, bias {:.3f}, weights {}, {} bytes sent\n", world->rank(), loss_value,
               bias.item<double>(), optim::weights_hash(weights.layout(), weights.x), wire->ledger().sent());
  });
}
