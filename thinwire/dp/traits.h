// What a strategy is like, as a value that its options give: what callers need to know without asking for its name.
#pragma once

#include <cstdint>
#include <string>

namespace thinwire::dp {

struct StrategyOptions;

struct Traits {
  bool owns_rule = false;           // it has an update rule of its own: optim.name is not used
  bool averages_gradients = false;  // replicas take the same step, or none
  bool needs_global_norms = true;   // a replica that is cut into stages clips by the norm of all of them, where it can
  int64_t round_steps = 1;          // steps after which its pattern comes again
  std::string sentences;            // what it does with these options, in plain text
};

Traits traits_of(const StrategyOptions& options);

}  // namespace thinwire::dp
