// Two replicas average their weights by local_sgd, through the one header.
#include <ATen/ops/zeros.h>
#include <thinwire/thinwire.h>

#include <cstdio>
#include <mutex>

int main() {
  using namespace thinwire;
  std::mutex mutex;
  std::string hashes[2];
  comm::run_world(2, [&](std::shared_ptr<comm::TransportGroup> world) {
    at::Tensor weight = at::zeros({4}).fill_(world->rank()).set_requires_grad(true);
    optim::Flat weights({{weight}});
    dp::StrategyOptions options = dp::preset("local_sgd");
    options.periodic.period = 1;
    auto strategy = dp::make_strategy(options, weights, {.sync = world}, optim::OptimOptions{.name = "sgd"});
    weights.grad.fill_(world->rank() + 1);
    const std::vector<double> lr = {0.5, 0.5};
    strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = lr, .t = 1});
    strategy->finish(weights.x);
    std::lock_guard lock(mutex);
    hashes[world->rank()] = optim::weights_hash(weights.layout(), weights.x);
  });
  std::printf("%s %s\n", hashes[0].c_str(), hashes[1].c_str());
  return hashes[0] == hashes[1] && !hashes[0].empty() ? 0 : 1;
}
