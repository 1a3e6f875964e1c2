#include "thinwire/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace thinwire::optim {

double Schedule::at(int64_t t) const {
  if (t <= warmup_steps) return lr * static_cast<double>(t) / static_cast<double>(warmup_steps);
  if (!cosine || steps <= warmup_steps) return lr;
  const double way = std::min(1.0, static_cast<double>(t - warmup_steps) / static_cast<double>(steps - warmup_steps));
  return lr * (final_lr + (1 - final_lr) * 0.5 * (1 + std::cos(std::numbers::pi * way)));
}

}  // namespace thinwire::optim
