#include "thinwire/train/noise_scale.h"

namespace thinwire::train {
namespace {

constexpr double kSmooth = 0.98;

}  // namespace

void NoiseScale::add(double local_squares, double mean_squares, double b, double B) {
  if (B <= b || local_squares <= 0) return;
  g2_ = kSmooth * g2_ + (B * mean_squares - b * local_squares) / (B - b);
  trace_ = kSmooth * trace_ + (local_squares - mean_squares) / (1 / b - 1 / B);
  weight_ = kSmooth * weight_ + 1;
}

std::optional<double> NoiseScale::batch() const {
  if (weight_ == 0 || g2_ <= 0 || trace_ < 0) return {};
  return trace_ / g2_;
}

void NoiseScale::put(State& state, const std::string& prefix) const {
  thinwire::put(state, prefix + "g2", g2_, Scope::all_equal);
  thinwire::put(state, prefix + "trace", trace_, Scope::all_equal);
  thinwire::put(state, prefix + "weight", weight_, Scope::all_equal);
}

void NoiseScale::get(const State& state, const std::string& prefix) {
  g2_ = get_double(state, prefix + "g2");
  trace_ = get_double(state, prefix + "trace");
  weight_ = get_double(state, prefix + "weight", 0);
}

}  // namespace thinwire::train
