#include "thinwire/dp/catalog.h"

#include "thinwire/base/errors.h"

namespace thinwire::dp {
namespace {

struct Named {
  const char* name;
  PeriodicOptions options;
};

const std::vector<Named>& periodic_names() {
  static const std::vector<Named> names = {
      {"local_sgd", {.delay = 0, .outer = "average"}},
      {"slowmo", {.delay = 0, .outer = "heavy_ball", .momentum = 0.5}},
      {"diloco", {.delay = 0, .outer = "nesterov", .outer_lr = 0.7, .momentum = 0.9, .lr_normalised = false}},
      {"delayed_diloco", {.delay = 1, .outer = "nesterov", .outer_lr = 0.25, .momentum = 0.9, .lr_normalised = false}},
      {"eager_diloco",
       {.delay = 1,
        .outer = "nesterov",
        .outer_lr = 0.25,
        .momentum = 0.9,
        .lr_normalised = false,
        .keep = {.per_replica = true}}},
      {"cocod", {.delay = 1, .outer = "average", .keep = {.share = 1}}},
      {"co2", {.delay = 1, .outer = "heavy_ball", .momentum = 0.2, .penalty = "gap", .clip = 1}},
  };
  return names;
}

}  // namespace

std::vector<std::string> strategy_names() {
  std::vector<std::string> names = {"all_reduce"};
  for (const auto& named : periodic_names()) names.emplace_back(named.name);
  return names;
}

StrategyOptions preset(const std::string& name) {
  StrategyOptions options;
  options.name = name;
  if (name == "all_reduce") return options;
  for (const auto& named : periodic_names()) {
    if (named.name != name) continue;
    options.periodic = named.options;
    return options;
  }
  throw BadInput("there is no strategy '{}'", name);
}

StrategyPtr make_strategy(const StrategyOptions& o, const optim::Flat& weights, Ranks ranks, optim::RulePtr rule) {
  const auto& layout = weights.layout();
  if (o.name == "all_reduce")
    return std::make_unique<AllReduce>(layout, std::move(ranks), std::move(rule), o.all_reduce, weights.x,
                                       weights.grad);
  return std::make_unique<Periodic>(layout, std::move(ranks), std::move(rule), o.periodic, weights.x);
}

}  // namespace thinwire::dp
