#include "thinwire/dp/all_reduce.h"

#include <c10/util/Exception.h>

namespace thinwire::dp {

AllReduce::AllReduce(const optim::Layout& layout, Groups groups, optim::RulePtr rule, const AllReduceOptions& options,
                     at::Tensor x, at::Tensor grad)
    : Strategy(std::move(groups)),
      rule_(std::move(rule)),
      grad_(grad),
      gradient_(layout, groups_.sync, grad, options.bucket.count, options.codec) {
  groups_.sync->broadcast_(x, 0)->wait();
}

void AllReduce::step(const optim::Update& update) {
  TORCH_CHECK(update.grad.is_set_to(grad_),
              "[dp.all_reduce] step() must be given the gradient the strategy was made with");
  if (update.skip && !gradient_.begun()) return apply(*rule_, update);
  for (auto& work : gradient_.take()) wait(*work);
  const at::Tensor squares = gradient_.squares();
  if (groups_.over_replica) groups_.over_replica(squares, optim::Over::sum);
  norms_ = {squares[0].item<double>(), squares[1].item<double>()};
  optim::Update with = update;
  with.grad_squares = squares[1];
  apply(*rule_, with);
}

State AllReduce::state() {
  State state;
  add_prefixed(state, "rule.", rule_->state());
  gradient_.put(state, "");
  return state;
}

void AllReduce::load(const State& state) {
  rule_->load(with_prefix(state, "rule."));
  gradient_.get(state, "");
}

}  // namespace thinwire::dp
