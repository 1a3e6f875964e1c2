// Strategies by name: the [strategy] section of a recipe. A name is a set of options with defaults of its own.
#pragma once

#include <string>
#include <vector>

#include "thinwire/base/options.h"
#include "thinwire/dp/all_reduce.h"
#include "thinwire/dp/periodic.h"
#include "thinwire/optim/flat.h"

namespace thinwire::dp {

struct StrategyOptions {
  std::string name = "all_reduce";
  AllReduceOptions all_reduce;
  PeriodicOptions periodic;  // every other name
};

// In the order of the catalog, all_reduce first.
std::vector<std::string> strategy_names();

// The options that a name stands for.
StrategyOptions preset(const std::string& name);

template <class F>
void fields(F&& f, StrategyOptions& o) {
  const std::string before = o.name;
  f("name", o.name, one_of(strategy_names()), "what replicas exchange, and when");
  if (o.name != before) o = preset(o.name);
  if (o.name == "all_reduce")
    fields(f, o.all_reduce);
  else
    fields(f, o.periodic);
}

// Collective over ranks.sync: broadcasts replica 0's weights into weights.x.
StrategyPtr make_strategy(const StrategyOptions& options, const optim::Flat& weights, Ranks ranks, optim::RulePtr rule);

}  // namespace thinwire::dp
