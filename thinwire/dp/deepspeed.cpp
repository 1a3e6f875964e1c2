#include "thinwire/dp/deepspeed.h"

#include "thinwire/compress/rms_mean.h"

namespace thinwire::dp {
namespace {

std::vector<kernels::Range> parameter_ranges(const optim::Layout& layout) {
  std::vector<kernels::Range> all;
  for (const auto& piece : layout.pieces) all.push_back(piece.range());
  return all;
}

class Mean final : public OneBitMean {
 public:
  Mean(comm::GroupPtr group, const optim::Layout& layout, bool carry_padding)
      : mean_(std::move(group), parameter_ranges(layout), carry_padding, layout.options) {}
  void exchange_(at::Tensor x, Meter&) override { mean_.mean_(x); }
  void forget() override { mean_.reset(); }
  void put(State& state) const override { mean_.put(state, ""); }
  void get(const State& state) override { mean_.get(state, ""); }

 private:
  compress::RmsMean mean_;
};

}  // namespace

Habits deepspeed_habits() {
  return {.masks = false,
          .reaches = false,
          .drops_first_gradient = true,
          .counts_unit_trust = false,
          .weighs_trust = false};
}

OneBitMeanPtr deepspeed_mean(comm::GroupPtr group, const optim::Layout& layout, bool carry_padding) {
  return std::make_unique<Mean>(std::move(group), layout, carry_padding);
}

}  // namespace thinwire::dp
