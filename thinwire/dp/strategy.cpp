#include "thinwire/dp/strategy.h"

namespace thinwire::dp {

Strategy::Strategy(Groups groups) : groups_(std::move(groups)) {
  if (!groups_.control) groups_.control = groups_.sync;
  if (!groups_.meter) groups_.meter = std::make_shared<Meter>();
}

void Strategy::apply(optim::Rule& rule, const optim::Update& with) {
  if (with.skip)
    optim::keep(with);
  else
    groups_.meter->run_rule([&] { rule.apply(with); });
  if (with.rule_wrote) with.rule_wrote();
}

}  // namespace thinwire::dp
