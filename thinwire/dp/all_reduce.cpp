#include "thinwire/dp/all_reduce.h"

#include <c10/util/Exception.h>

namespace thinwire::dp {

AllReduce::AllReduce(const optim::Layout& layout, Ranks ranks, optim::RulePtr rule, const AllReduceOptions& options,
                     at::Tensor x, at::Tensor grad)
    : rule_(std::move(rule)), grad_(grad), gradient_(layout, ranks, grad, options.bucket.count, options.codec) {
  ranks.sync->broadcast_(x, 0)->wait();
}

void AllReduce::step(const optim::Update& update) {
  TORCH_CHECK(update.grad.const_data_ptr() == grad_.const_data_ptr(),
              "[dp.all_reduce] step() must be given the gradient the strategy was made with");
  for (auto& work : gradient_.take()) wait(*work);
  norms_ = gradient_.norms();
  Strategy::update(*rule_, update);
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
