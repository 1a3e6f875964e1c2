#include "thinwire/dp/strategy.h"

namespace thinwire::dp {

void Strategy::wait(comm::Work& work) {
  const auto begin = Clock::now();
  work.wait();
  const auto end = Clock::now();
  exposed_s_ += seconds_between(begin, end);
  if (trace_) trace_->add(Doing::wait, begin, end);
}

void Strategy::update(optim::Rule& rule, const optim::Update& with) {
  if (with.skip) return optim::keep(with);
  const auto begin = Clock::now();
  rule.apply(with);
  update_s_ += seconds_since(begin);
}

void Strategy::judge(Landing landing, const Ranks& ranks) {
  landing_ = std::move(landing);
  judges_ = ranks;
}

std::optional<double> Strategy::prediction_error() {
  if (!landing_) return {};
  const double error = landing_->error(aside(judges_), judges_.sum_over_shards);
  landing_.reset();
  return error;
}

}  // namespace thinwire::dp
