#include "thinwire/train/control.h"

#include <ATen/ops/empty.h>

namespace thinwire::train {

void Control::tell(int64_t step, bool stop, std::optional<double> loss, const Costs& costs,
                   const std::optional<dp::GradientNorms>& norms) {
  at::Tensor values = at::empty({10}, at::kDouble);
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
  sent_.push_back({step, values, bare_->all_reduce_(values, comm::Reduce::sum, comm::Kind::control)});
}

std::optional<Tally> Control::next(int behind) {
  if (static_cast<int>(sent_.size()) <= behind) return {};
  Sent oldest = std::move(sent_.front());
  sent_.pop_front();
  oldest.work->wait();
  const double* v = oldest.values.const_data_ptr<double>();
  const double n = bare_->size();
  Tally tally{.step = oldest.step,
              .stop = v[0] > 0,
              .loss = v[1] / v[9],
              .costs = {},
              .wire_bytes = v[5] / n,
              .stage_bytes = v[8] / n,
              .norms = {}};
  tally.costs.seconds = v[2] / n;
  tally.costs.exposed_s = v[3] / n;
  tally.costs.compute_s = v[4] / n;
  tally.norms = {.local = v[6] / n, .mean = v[7] / n};
  return tally;
}

}  // namespace thinwire::train
