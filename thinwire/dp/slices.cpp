#include "thinwire/dp/slices.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "thinwire/base/errors.h"
#include "thinwire/kernels/host_span.h"

namespace thinwire::dp {
namespace {

kernels::Merge merge_of(const std::string& name) {
  static const std::map<std::string, kernels::Merge> merges = {{"overwrite", kernels::Merge::overwrite},
                                                               {"delta", kernels::Merge::delta},
                                                               {"ema", kernels::Merge::ema},
                                                               {"anchor", kernels::Merge::anchor}};
  return merges.at(name);
}

int64_t numel_of(kernels::Parts parts) { return parts.empty() ? 0 : parts.back().packed + parts.back().numel; }

}  // namespace

double SlicesOptions::mu(int64_t launch, int64_t launches) const {
  const int64_t hold = ema_hold.of(launches);
  if (launch <= hold) return ema[0];
  if (launch >= ema_steps) return ema[1];
  const double done = static_cast<double>(launch - hold) / static_cast<double>(ema_steps - hold);
  return ema[1] + (ema[0] - ema[1]) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

void check(const SlicesOptions& o) {
  const int64_t cycle = o.every * o.slices.least();
  if (!o.redraw && !o.delay.automatic && cycle < o.delay.steps)
    throw BadInput(
        "a slice would leave again before it landed: strategy.every x strategy.slices >= strategy.delay is "
        "needed, got {} x {} = {} < {}",
        o.every, o.slices.least(), cycle, o.delay.steps);
  if (o.redraw && o.merge == "anchor")
    throw BadInput("strategy.merge = \"anchor\" needs strategy.redraw = false: an anchor's slices come again");
  if (o.merge != "anchor" && !compress::carries_weights(o.codec.text))
    throw BadInput(
        "strategy.codec = \"{}\" needs strategy.merge = \"anchor\": with \"{}\" the weights themselves "
        "travel, and so few bits cannot say them (int8, bf16 and half can)",
        o.codec.text, o.merge);
  if (o.redraw && o.codec.text != "none")
    throw BadInput(
        "strategy.codec = \"{}\" needs strategy.redraw = false: what a codec loses of a slice is added when "
        "that slice comes again, and redrawn slices do not",
        o.codec.text);
  if (o.block % optim::kBlock != 0)
    throw BadInput("strategy.block must be a multiple of {}, got {}", optim::kBlock, o.block);
}

void check(const SlicesOptions& o, int64_t numel, int64_t planned_steps) {
  check_fields("strategy", o);
  const int64_t blocks = Slicing{.numel = numel, .block = o.block}.blocks();
  if (o.slices.most() > blocks)
    throw BadInput(
        "strategy.slices = {} is too many for a model of {} weights: a slice is made of blocks of {}, so there can be "
        "at most {}; take fewer slices, or a larger model",
        o.slices.most(), numel, o.block, blocks);
  o.slices.at(0, planned_steps);
  if (o.merge == "ema") o.ema_hold.of(planned_steps / o.every);
}

Slices::Slices(const optim::Layout& layout, Groups groups, optim::RulePtr rule, const SlicesOptions& options,
               at::Tensor x, int64_t planned_steps)
    : Strategy(std::move(groups)),
      layout_(layout),
      rule_(std::move(rule)),
      options_(options),
      merge_(merge_of(options.merge)),
      planned_steps_(planned_steps),
      slicing_{.seed = static_cast<uint64_t>(options.seed), .numel = layout.numel, .block = options.block},
      single_replica_(groups_.sync->size() == 1 &&
                      (merge_ != kernels::Merge::anchor || (options.momentum == 0 && options.outer_lr == 1))),
      count_(options.slices.at(0, planned_steps)) {
  check(options, layout.numel, planned_steps);
  if (options_.delay.automatic)
    throw BadInput("strategy.delay = \"auto\" is for runs, which measure it before they start: give a number here");
  groups_.sync->broadcast_(x, 0)->wait();
  if (single_replica_) return;
  if (merge_ == kernels::Merge::anchor) z_ = x.clone();
  if (merge_ == kernels::Merge::anchor && options_.momentum > 0) m_ = at::zeros_like(x);
  if (merge_ == kernels::Merge::ema) {
    e_ = at::zeros_like(x);
    merged_ = at::zeros({slicing_.blocks()}, at::kByte);
  }
  if (options_.codec.text == "none") return;
  compressed_ =
      std::make_unique<compress::CompressedAllReduce>(groups_.sync, compress::make_codec(options_.codec.text));
  reset_errors(count_);
}

void Slices::reset_errors(int64_t count) {
  errors_.clear(), valid_.clear();
  const at::Tensor counts = optim::valid_counts(layout_).cpu();
  const auto valid = kernels::host_span<const int32_t>(counts);
  std::vector<kernels::Part> parts;
  for (int64_t s = 0; s < count; ++s) {
    slicing_.parts_of(count, s, 0, parts);
    errors_.push_back(compressed_->errors(numel_of(parts), layout_.options));
    std::vector<int32_t> own;
    for (const auto& part : parts)
      own.insert(own.end(), valid.begin() + part.at / optim::kBlock,
                 valid.begin() + (part.at + part.numel) / optim::kBlock);
    valid_.push_back(at::tensor(own, layout_.options.dtype(at::kInt)));
  }
}

void Slices::step(const optim::Update& u) {
  apply(*rule_, u);
  agreed_ = false;
  ++steps_;
  if (single_replica_) return;
  auto land_due = [&] {
    while (!in_flight_.empty() && in_flight_.front().launch * options_.every + options_.delay.steps <= steps_)
      land(u.next);
  };
  land_due();
  if (steps_ % options_.every == 0) launch(u.next);
  land_due();  // without delay: at once
}

void Slices::set_parts(Flight& f, int64_t launch) {
  f.launch = launch;
  slicing_.parts_of(count_, (launch - 1) % count_, options_.redraw ? (launch - 1) / count_ : 0, f.parts);
  f.numel = numel_of(f.parts);
  if (!f.y_buffer.defined() || f.y_buffer.numel() < f.numel) {
    const int64_t room = (slicing_.blocks() + count_ - 1) / count_ * options_.block;
    f.y_buffer = at::empty({room}, layout_.options);
    f.message_buffer = at::empty({room}, layout_.options);
  }
  f.y = f.y_buffer.narrow(0, 0, f.numel);
  f.message = f.message_buffer.narrow(0, 0, f.numel);
}

void Slices::launch(const at::Tensor& x) {
  const int64_t count = options_.slices.at(steps_, planned_steps_);
  if (count != count_) {
    if (in_flight_.empty()) reslice(count);
    return;
  }
  Flight f;
  if (!free_.empty()) {
    f = std::move(free_.back());
    free_.pop_back();
  }
  set_parts(f, steps_ / options_.every);
  kernels::slice_take(f.parts, x, z_, f.y, f.message);
  in_flight_.push_back(std::move(f));
  Flight& flying = in_flight_.back();  // a deque: it stays where it is
  const auto slice = static_cast<size_t>((flying.launch - 1) % count_);
  if (compressed_)
    flying.work = compressed_->start(flying.message, errors_[slice], valid_[slice],
                                     [this, &flying](int64_t i) { return place_in(flying, i); });
  else
    flying.work = groups_.sync->all_reduce_(flying.message, comm::Reduce::mean);
}

std::string Slices::place_in(const Flight& f, int64_t i) const {
  const auto part = std::ranges::find_if(f.parts, [i](const auto& p) { return i < p.packed + p.numel; });
  return "the weights: " + optim::place_in(layout_, part->at + i - part->packed);
}

void Slices::land(const at::Tensor& x) {
  if (in_flight_.front().work) wait(*in_flight_.front().work);
  Flight f = std::move(in_flight_.front());
  in_flight_.pop_front();
  f.work = nullptr;
  if (merged_.defined()) {
    const auto merged = kernels::host_span<uint8_t>(merged_);
    for (auto& part : f.parts) part.fresh = !std::exchange(merged[part.at / options_.block], 1);
  }
  at::Tensor now, written;
  const bool measured = groups_.probe && groups_.probe->enabled() && options_.delay.steps > 0;
  if (measured) {
    now = at::empty_like(f.y), written = at::empty_like(f.y);
    kernels::slice_gather(f.parts, x, now);
  }
  const bool carries = options_.redraw && !in_flight_.empty();
  if (carries && (!jump_.defined() || jump_.numel() < f.numel)) jump_ = at::empty_like(f.y_buffer);
  const double mu = options_.mu(f.launch, planned_steps_ / options_.every);
  kernels::slice_merge(
      f.parts,
      {.x = x, .answer = f.message, .y = f.y, .e = e_, .z = z_, .m = m_, .jump = carries ? jump_ : at::Tensor()},
      {.merge = merge_,
       .mu = static_cast<float>(mu),
       .one_minus_mu = static_cast<float>(1 - mu),
       .alpha = static_cast<float>(options_.outer_lr),
       .beta = static_cast<float>(options_.momentum)});
  if (carries)
    for (Flight& later : in_flight_) kernels::slice_carry(f.parts, jump_, later.parts, later.y);
  if (measured) {
    kernels::slice_gather(f.parts, x, written);
    groups_.probe->merged(sample(f.y), sample(now), sample(written));
  }
  free_.push_back(std::move(f));
}

void Slices::reslice(int64_t count) {
  if (compressed_) {
    const at::Tensor lost = at::zeros({layout_.numel}, layout_.options);
    std::vector<kernels::Part> parts;
    for (int64_t s = 0; s < count_; ++s) {
      slicing_.parts_of(count_, s, 0, parts);
      compressed_->fold(errors_[s]);
      kernels::slice_scatter(parts, errors_[s].worker.error, lost);
    }
    reset_errors(count);
    for (int64_t s = 0; s < count; ++s) {
      slicing_.parts_of(count, s, 0, parts);
      kernels::slice_gather(parts, lost, errors_[s].worker.error);
    }
  }
  free_.clear();
  count_ = count;
}

void Slices::drain() {
  for (Flight& f : in_flight_)
    if (f.work) f.work->wait();
}

void Slices::finish(at::Tensor x) {
  if (single_replica_) return;
  while (!in_flight_.empty()) land(x);
  for (auto& errors : errors_) errors.reset();
  if (z_.defined())
    x.copy_(z_);
  else
    wait(*groups_.sync->all_reduce_(x, comm::Reduce::mean));
  agreed_ = true;
}

at::Tensor Slices::consensus(at::Tensor x) {
  if (single_replica_ || agreed_) return x;  // the mean of equals may differ from them by a bit
  if (z_.defined()) return z_;
  if (!consensus_.defined()) consensus_ = at::empty_like(x);
  consensus_.copy_(x);
  groups_.control->all_reduce_(consensus_, comm::Reduce::mean, comm::TrafficKind::control)->wait();
  return consensus_;
}

State Slices::state() {
  State state;
  add_prefixed(state, "rule.", rule_->state());
  put(state, "steps", steps_, Scope::all_equal);
  put(state, "slices", count_, Scope::all_equal);
  if (single_replica_) return state;
  drain();  // what arrived is kept, not yet merged: it need not be sent again
  if (z_.defined()) state["z"] = {z_, Scope::all_equal};
  if (m_.defined()) state["m"] = {m_, Scope::all_equal};
  if (e_.defined()) state["e"] = {e_, Scope::per_replica};
  if (merged_.defined()) state["merged"] = {merged_, Scope::all_equal};
  put(state, "flights", std::ssize(in_flight_), Scope::all_equal);
  for (size_t k = 0; k < in_flight_.size(); ++k) {
    const std::string prefix = fmt::format("flight.{}.", k);
    put(state, prefix + "launch", in_flight_[k].launch, Scope::all_equal);
    state[prefix + "y"] = {in_flight_[k].y, Scope::per_replica};
    state[prefix + "answer"] = {in_flight_[k].message, Scope::all_equal};
  }
  for (size_t s = 0; s < errors_.size(); ++s) errors_[s].put(state, fmt::format("slice.{}.", s));
  return state;
}

void Slices::load(const State& state) {
  rule_->load(with_prefix(state, "rule."));
  steps_ = get_int(state, "steps", 0);
  count_ = get_int(state, "slices", options_.slices.least(), options_.slices.most());
  if (single_replica_) return;
  if (z_.defined()) get(state, "z", z_);
  if (m_.defined()) get(state, "m", m_);
  if (e_.defined()) get(state, "e", e_);
  if (merged_.defined()) get(state, "merged", merged_);
  drain();
  agreed_ = false;
  in_flight_.clear();
  free_.clear();
  const int64_t launches = steps_ / options_.every;
  for (int64_t k = 0, next = 1, flights = get_int(state, "flights", 0, launches); k < flights; ++k) {
    const std::string prefix = fmt::format("flight.{}.", k);
    Flight& f = in_flight_.emplace_back();
    set_parts(f, get_int(state, prefix + "launch", next, launches));
    next = f.launch + 1;
    get(state, prefix + "y", f.y);
    get(state, prefix + "answer", f.message);
  }
  if (!compressed_) return;
  reset_errors(count_);
  for (size_t s = 0; s < errors_.size(); ++s) errors_[s].get(state, fmt::format("slice.{}.", s));
}

}  // namespace thinwire::dp
