#include "thinwire/dp/catalog.h"

#include <algorithm>

#include "thinwire/base/errors.h"
#include "thinwire/dp/one_bit_adam.h"

namespace thinwire::dp {
namespace {

struct NamedPeriodic {
  std::string name;
  PeriodicOptions options;
};

const std::vector<NamedPeriodic>& periodic_names() {
  static const std::vector<NamedPeriodic> names = {
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

struct NamedSlices {
  std::string name;
  SlicesOptions options;
};

const std::vector<NamedSlices>& slices_names() {
  static const std::vector<NamedSlices> names = {
      {"sparta", {.slices = 20, .delay = 0, .merge = "overwrite"}},
      {"async_sparta", {.slices = 20, .delay = 10, .merge = "overwrite"}},
      {"asyncmesh", {.slices = 20, .delay = 10, .merge = "ema", .redraw = true}},
      {"loscar", {.slices = 20, .delay = 10, .merge = "delta"}},
      {"drip", {.slices = 8, .delay = 1, .merge = "anchor", .codec = {"one_bit"}}},
  };
  return names;
}

template <class Names>
auto find(const Names& names, const std::string& name) {
  return std::ranges::find_if(names, [&](const auto& named) { return named.name == name; });
}

const std::vector<std::string> kOneBit = {"one_bit_adam", "one_bit_lamb", "zero_one_adam"};

}  // namespace

std::vector<std::string> strategy_names() {
  std::vector<std::string> names = {"all_reduce"};
  for (const auto& named : periodic_names()) names.push_back(named.name);
  for (const auto& named : slices_names()) names.push_back(named.name);
  names.insert(names.end(), kOneBit.begin(), kOneBit.end());
  return names;
}

Family family_of(const std::string& name) {
  if (name == "all_reduce") return Family::all_reduce;
  if (std::ranges::find(kOneBit, name) != kOneBit.end()) return Family::one_bit;
  if (find(periodic_names(), name) != periodic_names().end()) return Family::periodic;
  if (find(slices_names(), name) != slices_names().end()) return Family::slices;
  throw BadInput("there is no strategy '{}'", name);
}

StrategyOptions preset(const std::string& name) {
  StrategyOptions options;
  options.name = name;
  if (family_of(name) == Family::periodic) options.periodic = find(periodic_names(), name)->options;
  if (family_of(name) == Family::slices) options.slices = find(slices_names(), name)->options;
  return options;
}

SlicesOptions* slices_of(StrategyOptions& o) { return family_of(o.name) == Family::slices ? &o.slices : nullptr; }

void check(const StrategyOptions& o, int64_t numel, int64_t planned_steps) {
  if (const auto* slices = slices_of(o)) check(*slices, numel, planned_steps);
}

StrategyPtr make_strategy(const StrategyOptions& o, const optim::Flat& weights, Groups groups,
                          const optim::OptimOptions& optim, int64_t planned_steps) {
  if (o.name == "one_bit_adam") return std::make_unique<OneBitAdam>(weights, std::move(groups), o.one_bit, optim);
  if (o.name == "one_bit_lamb")
    return std::make_unique<OneBitLamb>(weights, std::move(groups), o.one_bit, o.lamb, optim);
  if (o.name == "zero_one_adam")
    return std::make_unique<ZeroOneAdam>(weights, std::move(groups), o.one_bit, o.zero_one, optim);
  auto rule = optim::make_rule(optim, weights.layout(), groups.over_replica, groups.over_shards);
  return make_strategy(o, weights, std::move(groups), std::move(rule), planned_steps);
}

StrategyPtr make_strategy(const StrategyOptions& o, const optim::Flat& weights, Groups groups, optim::RulePtr rule,
                          int64_t planned_steps) {
  const auto& layout = weights.layout();
  switch (family_of(o.name)) {
    case Family::all_reduce:
      return std::make_unique<AllReduce>(layout, std::move(groups), std::move(rule), o.all_reduce, weights.x,
                                         weights.grad);
    case Family::periodic:
      return std::make_unique<Periodic>(layout, std::move(groups), std::move(rule), o.periodic, weights.x);
    case Family::slices:
      return std::make_unique<Slices>(layout, std::move(groups), std::move(rule), o.slices, weights.x, planned_steps);
    case Family::one_bit:
      throw BadInput("{} has an update rule of its own: it takes no other", o.name);
  }
  throw BadInput("there is no strategy '{}'", o.name);
}

}  // namespace thinwire::dp
