#include "thinwire/dp/periodic.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/errors.h"
#include "thinwire/kernels/outer.h"

namespace thinwire::dp {

void read(const Value& value, const std::string& name, Keep& keep, const Limit& limit) {
  const auto* text = std::get_if<std::string>(&value);
  if (text && *text != "1/M") throw BadInput("{} must be a number or \"1/M\", got \"{}\"", name, *text);
  keep = {0, text != nullptr};
  if (!text) thinwire::read(value, name, keep.share, limit);
}

Value to_value(const Keep& keep) {
  if (keep.per_replica) return std::string("1/M");
  return keep.share;
}

Periodic::Periodic(const optim::Layout& layout, Groups groups, optim::RulePtr rule, const PeriodicOptions& options,
                   at::Tensor x)
    : Strategy(std::move(groups)),
      layout_(layout),
      rule_(std::move(rule)),
      options_(options),
      average_(options.outer == "average"),
      keep_(options.keep.per_replica ? 1.0 / groups_.sync->size() : options.keep.share),
      single_replica_(groups_.sync->size() == 1 && average_ && (options.delay == 0 || keep_ == 1)),
      valid_(optim::valid_counts(layout)) {
  check_fields("periodic", options);
  TORCH_CHECK(options.delay == 1 || keep_ == 0, "[dp.periodic] keep = ", keep_,
              " needs delay = 1: without delay there is no progress still under way");
  TORCH_CHECK(!average_ || (options.momentum == 0 && options.outer_lr == 1 && options.penalty == "none" &&
                            std::isinf(options.clip)),
              "[dp.periodic] outer = average takes no momentum, outer_lr, penalty or clip");
  gamma_.assign(layout.groups.size(), 0);
  gamma_prev_.assign(layout.groups.size(), 0);
  groups_.sync->broadcast_(x, 0)->wait();
  if (single_replica_) return;
  z_ = x.clone();
  flight_ = at::zeros_like(x);
  if (options_.momentum > 0) v_ = at::zeros_like(x);
  if (keep_ > 0) start_ = x.clone();
  if (options_.codec.text == "none") return;
  compressed_ = std::make_unique<compress::CompressedAllReduce>(
      groups_.sync, compress::make_codec(options_.codec.text),
      [layout](int64_t i) { return "the progress of " + optim::place_in(layout, i); });
  errors_ = compressed_->errors(layout.numel, layout.options);
}

comm::WorkPtr Periodic::launch() {
  if (compressed_) return compressed_->start(flight_, errors_, valid_);
  return groups_.sync->all_reduce_(flight_, comm::Reduce::mean);
}

void Periodic::step(const optim::Update& u) {
  apply(*rule_, u);
  gamma_.assign(u.lr.begin(), u.lr.end());
  if (++inner_ == options_.period) close_round(u.next);
}

void Periodic::close_round(at::Tensor x) {
  inner_ = 0;
  ++rounds_;
  if (single_replica_) return;
  const bool sync = options_.delay == 1 && rounds_ <= options_.sync_rounds;
  if (options_.delay == 1 && !sync) {
    const bool available = in_flight_;
    const auto& probe = groups_.probe;
    const at::Tensor now = probe && probe->was_enabled() ? sample(x) : at::Tensor();
    land();
    move(x, available, /*launch=*/true, false);
    if (probe && probe->enabled() && available && then_.defined()) probe->merged(then_, now.clone(), sample(x));
    then_ = now;
    work_ = launch();
    in_flight_ = true;
  } else if (average_ && !compressed_) {
    wait(*groups_.sync->all_reduce_(x, comm::Reduce::mean));
    z_.copy_(x);
    if (start_.defined()) start_.copy_(x);
  } else {
    at::sub_out(flight_, x, z_);
    wait(*launch());
    move(x, true, /*launch=*/false, sync);
  }
}

void Periodic::land() {
  if (work_) wait(*work_);
  work_ = nullptr;
  in_flight_ = false;
}

double Periodic::lambda() const {
  if (options_.delay == 0) return 1;  // a fresh average is not stale
  if (options_.penalty == "floor") return options_.outer_lr / (1 - options_.momentum);
  if (options_.penalty == "gap" && largest_move_ > 0) return 1 + last_move_ / largest_move_;
  return 1;
}

void Periodic::move(at::Tensor x, bool apply, bool launch, bool sync) {
  kernels::OuterStep step{.apply = apply, .launch = launch, .nesterov = options_.outer == "nesterov"};
  step.scale = static_cast<float>(sync ? 1 : 1 / lambda());
  step.rate = static_cast<float>(options_.outer_lr);
  step.beta = static_cast<float>(options_.momentum);
  step.keep = static_cast<float>(keep_);
  const kernels::OuterBuffers buffers{x, z_, v_, flight_, start_};
  double squares = 0;
  auto pass = [&](kernels::Range range, int group) {
    const double gamma = gamma_[group], before = gamma_prev_[group];
    const double ratio = options_.lr_normalised && before > 0 ? gamma / before : 1;
    step.decay = static_cast<float>(options_.momentum * ratio);
    if (!std::isinf(options_.clip))
      step.bound = static_cast<float>(options_.clip * static_cast<double>(options_.period) * gamma);
    squares += kernels::outer_update(buffers, range, step);
  };
  if (std::ranges::count(gamma_, gamma_[0]) == std::ssize(gamma_) &&
      std::ranges::count(gamma_prev_, gamma_prev_[0]) == std::ssize(gamma_prev_)) {
    pass(kernels::whole(x), 0);  // equal learning rates: one pass over everything; padding stays zero
  } else {
    for (const auto& span : optim::spans(layout_)) pass(span.range(), span.group);
  }
  if (!launch && start_.defined()) start_.copy_(z_);
  if (!apply) return;
  gamma_prev_ = gamma_;
  if (options_.penalty == "gap" && groups_.over_replica) {
    const at::Tensor sum = at::scalar_tensor(squares, at::kDouble);
    groups_.over_replica(sum, optim::Over::sum);
    squares = sum.item<double>();
  }
  last_move_ = std::sqrt(squares);
  largest_move_ = std::max(largest_move_, last_move_);
}

void Periodic::drain() {
  if (work_) work_->wait();
}

void Periodic::finish(at::Tensor x) {
  if (inner_ > 0) close_round(x);
  if (!in_flight_) return;
  land();
  move(x, true, /*launch=*/false, false);
}

at::Tensor Periodic::consensus(at::Tensor x) { return single_replica_ ? x : z_; }

State Periodic::state() {
  State state;
  add_prefixed(state, "rule.", rule_->state());
  put(state, "inner", inner_, Scope::all_equal);
  put(state, "rounds", rounds_, Scope::all_equal);
  if (single_replica_) return state;
  drain();  // the average is kept, not yet used: it need not be sent again
  state["z"] = {z_, Scope::all_equal};
  if (in_flight_) state["flight"] = {flight_, Scope::all_equal};
  if (v_.defined()) state["v"] = {v_, Scope::all_equal};
  if (start_.defined()) state["start"] = {start_, Scope::per_replica};
  if (compressed_) errors_.put(state, "");
  put(state, "in_flight", int64_t{in_flight_}, Scope::all_equal);
  put(state, "last_move", last_move_, Scope::all_equal);
  put(state, "largest_move", largest_move_, Scope::all_equal);
  for (size_t group = 0; group < gamma_.size(); ++group) {
    put(state, "gamma." + std::to_string(group), gamma_[group], Scope::all_equal);
    put(state, "gamma_prev." + std::to_string(group), gamma_prev_[group], Scope::all_equal);
  }
  return state;
}

void Periodic::load(const State& state) {
  rule_->load(with_prefix(state, "rule."));
  inner_ = get_int(state, "inner", 0, options_.period - 1);
  rounds_ = get_int(state, "rounds", 0);
  if (single_replica_) return;
  drain();
  work_ = nullptr;
  then_ = at::Tensor();
  get(state, "z", z_);
  if (v_.defined()) get(state, "v", v_);
  if (start_.defined()) get(state, "start", start_);
  if (compressed_) errors_.get(state, "");
  in_flight_ = get_int(state, "in_flight", 0, 1) != 0;
  if (in_flight_) get(state, "flight", flight_);
  last_move_ = get_double(state, "last_move", 0);
  largest_move_ = get_double(state, "largest_move", 0);
  for (size_t group = 0; group < gamma_.size(); ++group) {
    gamma_[group] = get_double(state, "gamma." + std::to_string(group), 0);
    gamma_prev_[group] = get_double(state, "gamma_prev." + std::to_string(group), 0);
  }
}

}  // namespace thinwire::dp
