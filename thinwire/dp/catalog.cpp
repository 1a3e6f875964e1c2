#include "thinwire/dp/catalog.h"

#include <algorithm>

#include "thinwire/base/errors.h"
#include "thinwire/dp/one_bit_adam.h"
#include "thinwire/dp/one_bit_lamb.h"

namespace thinwire::dp {
namespace {

struct Named {
  std::string name;
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

const std::vector<std::string> kOneBit = {"one_bit_adam", "one_bit_lamb", "zero_one_adam"};

}  // namespace

std::vector<std::string> strategy_names() {
  std::vector<std::string> names = {"all_reduce"};
  for (const auto& named : periodic_names()) names.push_back(named.name);
  names.insert(names.end(), kOneBit.begin(), kOneBit.end());
  return names;
}

Family family_of(const std::string& name) {
  if (name == "all_reduce") return Family::all_reduce;
  if (std::ranges::find(kOneBit, name) != kOneBit.end()) return Family::one_bit;
  if (std::ranges::any_of(periodic_names(), [&](const Named& named) { return named.name == name; }))
    return Family::periodic;
  throw BadInput("there is no strategy '{}'", name);
}

StrategyOptions preset(const std::string& name) {
  StrategyOptions options;
  options.name = name;
  if (family_of(name) == Family::periodic)
    options.periodic = std::ranges::find(periodic_names(), name, &Named::name)->options;
  return options;
}

StrategyPtr make_strategy(const StrategyOptions& o, const optim::Flat& weights, Ranks ranks,
                          const optim::OptimOptions& optim) {
  const auto& layout = weights.layout();
  auto rule = [&] { return optim::make_rule(optim, layout, ranks.sum_over_shards); };
  if (o.name == "one_bit_adam") return std::make_unique<OneBitAdam>(weights, std::move(ranks), o.one_bit, optim);
  if (o.name == "one_bit_lamb") return std::make_unique<OneBitLamb>(weights, std::move(ranks), o.one_bit, optim);
  if (o.name == "zero_one_adam")
    return std::make_unique<ZeroOneAdam>(weights, std::move(ranks), o.one_bit, o.zero_one, optim);
  if (o.name == "all_reduce")
    return std::make_unique<AllReduce>(layout, ranks, rule(), o.all_reduce, weights.x, weights.grad);
  return std::make_unique<Periodic>(layout, ranks, rule(), o.periodic, weights.x);
}

}  // namespace thinwire::dp
