#include "thinwire/train/control.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "thinwire/base/clock.h"

namespace thinwire::train {
namespace {

constexpr int64_t kMostLag = 256;
constexpr int64_t kQuiet = 200;       // lags without a complaint until it may be shorter
constexpr double kSmallPart = 0.05;   // of the time, that may go to waiting
constexpr double kPatience_s = 0.25;  // of waiting, before anything is said: a busy machine is no slow network

}  // namespace

void Control::post(int64_t step, bool stop, std::optional<double> loss, const Costs& costs,
                   const std::optional<dp::GradientNorms>& norms) {
  at::Tensor values = at::empty({11}, at::kDouble);
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
  if (since_ < 0) since_ = costs.seconds;
  const bool complaint = waited_s_ > std::max(kPatience_s, kSmallPart * (costs.seconds - since_));
  if (complaint) waited_s_ = 0, since_ = costs.seconds;
  v[10] = complaint ? 1 : 0;
  posted_.push_back({step, values, group_->all_reduce_(values, comm::Reduce::sum, comm::TrafficKind::control)});
}

std::optional<StepStats> Control::next() {
  if (std::ssize(posted_) <= lag_) return {};
  const auto begin = Clock::now();
  auto stats = oldest();
  waited_s_ += seconds_since(begin);
  return stats;
}

std::optional<StepStats> Control::next_of_all() {
  if (posted_.empty()) return {};
  return oldest();
}

// What was posted before a change was said of the lag before it.
void Control::adapt(int64_t step, bool complaint) {
  if (step <= changed_) return;
  const int64_t before = lag_;
  if (complaint)
    lag_ = std::min(2 * lag_, kMostLag);
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
                  .loss = v[1] / v[9],
                  .costs = {},
                  .wire_bytes = v[5] / n,
                  .stage_bytes = v[8] / n,
                  .norms = {}};
  stats.costs.seconds = v[2] / n;
  stats.costs.exposed_s = v[3] / n;
  stats.costs.compute_s = v[4] / n;
  stats.norms = {.local = v[6] / n, .mean = v[7] / n};
  adapt(posted.step, v[10] > 0);
  return stats;
}

}  // namespace thinwire::train
