#include "thinwire/train/control.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

namespace thinwire::train {
namespace {

constexpr int64_t kMostLag = 256;
constexpr int64_t kQuiet = 200;       // lags without a complaint until it may be shorter
constexpr double kSmallPart = 0.05;   // of the time, that may go to waiting
constexpr double kPatience_s = 0.25;  // of waiting, before anything is said: a busy machine is no slow network
constexpr double kSlow_s = 0.02;      // an answer that takes longer, at best, comes over a slow network
constexpr double kMargin = 2;         // a step may be quicker than it was thought

// How long an answer of the group takes, at best: what keeps a thread from running now and then is no network. The same
// on all ranks. Collective.
double answer_seconds(comm::Group& group) {
  at::Tensor best = at::full({1}, 1e9, at::kDouble);
  const at::Tensor ping = at::zeros({1}, at::kDouble);
  for (int i = 0; i < 6; ++i) {
    const auto begin = Clock::now();
    group.all_reduce_(ping, comm::Reduce::sum, comm::TrafficKind::control)->wait();
    if (i > 0) best.clamp_max_(seconds_since(begin));  // the first one also waits for ranks that come late
  }
  group.all_reduce_(best, comm::Reduce::max, comm::TrafficKind::control)->wait();
  return best.item<double>();
}

int64_t steps_in(double seconds, double step_s) {
  return static_cast<int64_t>(std::min(std::ceil(kMargin * seconds / step_s), 1.0 * kMostLag));
}

}  // namespace

Control::Control(comm::GroupPtr group, int64_t lead, double step_s)
    : group_(std::move(group)), least_(1 + lead), lag_(least_) {
  const double answer_s = answer_seconds(*group_);
  if (answer_s > kSlow_s) lag_ = std::min(least_ + steps_in(answer_s, step_s), std::max(kMostLag, least_));
}

void Control::post(int64_t step, bool stop, bool save, std::optional<double> loss, const Costs& costs,
                   const std::optional<dp::GradientNorms>& norms) {
  at::Tensor values = at::empty({13}, at::kDouble);
  double* v = values.mutable_data_ptr<double>();
  v[0] = stop ? 1 : 0;
  v[1] = loss.value_or(0);
  v[2] = costs.seconds;
  v[3] = costs.exposed_s;
  v[4] = costs.compute_s;
  v[5] = static_cast<double>(costs.wire_bytes);
  v[6] = norms ? norms->local : 0;
  v[7] = norms ? norms->mean : 0;
  v[8] = static_cast<double>(costs.stage_bytes);
  v[9] = loss ? 1 : 0;
  v[12] = save ? 1 : 0;
  if (since_ < 0) since_ = costs.seconds, since_step_ = step;
  const double passed_s = costs.seconds - since_;
  const bool complaint = waited_s_ > std::max(kPatience_s, kSmallPart * passed_s);
  v[10] = complaint ? 1 : 0;
  v[11] = complaint ? static_cast<double>(steps_in(
                          answer_s_, std::max(passed_s - waited_s_, 1e-6) / std::max<int64_t>(step - since_step_, 1)))
                    : 0;
  if (complaint) waited_s_ = 0, since_ = costs.seconds, since_step_ = step;
  posted_.push_back(
      {step, Clock::now(), values, group_->all_reduce_(values, comm::Reduce::sum, comm::TrafficKind::control)});
}

std::optional<StepStats> Control::next() {
  if (std::ssize(posted_) <= lag_) return {};
  const auto begin = Clock::now(), posted = posted_.front().at;
  auto stats = oldest();
  const auto end = Clock::now();
  waited_s_ += seconds_between(begin, end);
  answer_s_ = seconds_between(posted, end);
  return stats;
}

std::optional<StepStats> Control::next_of_all() {
  if (posted_.empty()) return {};
  return oldest();
}

// What was posted before a change was said of the lag before it.
void Control::adapt(int64_t step, double wished) {
  if (step <= changed_) return;
  const int64_t before = lag_;
  const bool complaint = wished > 0;
  if (complaint)
    lag_ = std::max(std::min(std::max(2 * lag_, least_ + static_cast<int64_t>(wished)), kMostLag), lag_);
  else if (step - changed_ > kQuiet * lag_)
    lag_ = std::max((lag_ + 1) / 2, least_);
  if (lag_ != before || complaint) changed_ = step + before;
}

std::optional<StepStats> Control::oldest() {
  const Posted posted = std::move(posted_.front());
  posted_.pop_front();
  posted.work->wait();
  const double* v = posted.values.const_data_ptr<double>();
  const double n = group_->size();
  StepStats stats{.step = posted.step,
                  .stop = v[0] > 0,
                  .save = v[12] > 0,
                  .loss = v[1] / v[9],
                  .costs = {},
                  .wire_bytes = v[5] / n,
                  .stage_bytes = v[8] / n,
                  .norms = {}};
  stats.costs.seconds = v[2] / n;
  stats.costs.exposed_s = v[3] / n;
  stats.costs.compute_s = v[4] / n;
  stats.norms = {.local = v[6] / n, .mean = v[7] / n};
  adapt(posted.step, v[10] > 0 ? v[11] / v[10] : 0);
  return stats;
}

}  // namespace thinwire::train
