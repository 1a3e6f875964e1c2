// Strategies by name: the [strategy] section of a recipe. A name is a set of options with defaults of its own; several
// names share a class (periodic.h, slices.h, one_bit.h).
//
// To add a name: a row in catalog.cpp, and its sentences in traits.cpp. To add a class: its options and family here.
#pragma once

#include <string>
#include <vector>

#include "thinwire/base/options.h"
#include "thinwire/dp/all_reduce.h"
#include "thinwire/dp/one_bit_lamb.h"
#include "thinwire/dp/periodic.h"
#include "thinwire/dp/slices.h"
#include "thinwire/dp/traits.h"
#include "thinwire/dp/zero_one_adam.h"
#include "thinwire/optim/catalog.h"
#include "thinwire/optim/flat.h"

namespace thinwire::dp {

// Of all classes; only those of the name's family are used.
struct StrategyOptions {
  std::string name = "all_reduce";  // one of strategy_names()
  AllReduceOptions all_reduce;
  PeriodicOptions periodic;  // local_sgd to co2
  SlicesOptions slices;      // sparta to drip
  OneBitOptions one_bit;     // one_bit_adam, one_bit_lamb, zero_one_adam
  LambFactor lamb;           // one_bit_lamb
  ZeroOneOptions zero_one;   // zero_one_adam
};

// Which class a name belongs to, and so which options it has; what a caller wants to know of a strategy is in traits.h.
// BadInput if there is no such strategy.
enum class Family { all_reduce, periodic, slices, one_bit };
Family family_of(const std::string& name);

// All names, in the order of the catalog, all_reduce first; for help, and for `compare`.
std::vector<std::string> strategy_names();

// The options that a name stands for. BadInput, as above.
StrategyOptions preset(const std::string& name);

// The [strategy] section: the name first, which sets its defaults, then the options of its class.
template <class F>
void fields(F&& f, StrategyOptions& o) {
  const std::string before = o.name;
  f("name", o.name, one_of(strategy_names()), "what replicas exchange, and when");
  if (o.name != before) o = preset(o.name);
  switch (family_of(o.name)) {
    case Family::all_reduce:
      return fields(f, o.all_reduce);
    case Family::periodic:
      return fields(f, o.periodic);
    case Family::slices:
      return fields(f, o.slices);
    case Family::one_bit:
      fields(f, o.one_bit);
      if (o.name == "one_bit_lamb") fields(f, o.lamb);
      if (o.name == "zero_one_adam") fields(f, o.zero_one);
  }
}

// The options of a strategy that exchanges slices, inside `options`; null for the others. For callers that set a delay
// they have measured.
SlicesOptions* slices_of(StrategyOptions& options);
inline const SlicesOptions* slices_of(const StrategyOptions& options) {
  return slices_of(const_cast<StrategyOptions&>(options));
}
// BadInput where options do not fit flat weights of this length, or a run of so many steps (0: unknown).
void check(const StrategyOptions& options, int64_t numel, int64_t planned_steps);

// Collective over groups.sync: broadcasts replica 0's weights into weights.x. `planned_steps`: how many there will be,
// 0 if that is unknown. `weights` must outlive the strategy, which reads its layout and gradient. BadInput where
// options do not fit.
StrategyPtr make_strategy(const StrategyOptions& options, const optim::Flat& weights, Groups groups,
                          const optim::OptimOptions& optim, int64_t planned_steps = 0);
// The same around a rule that the caller made (or wrote), which clips if it wants to. The strategy takes it over.
// BadInput for a strategy that owns its rule (Traits::owns_rule).
StrategyPtr make_strategy(const StrategyOptions& options, const optim::Flat& weights, Groups groups,
                          optim::RulePtr rule, int64_t planned_steps = 0);

}  // namespace thinwire::dp
