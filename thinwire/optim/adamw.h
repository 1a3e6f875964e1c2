// AdamW (1711.05101), equal to torch.optim.AdamW.
#pragma once

#include <array>

#include "thinwire/kernels/adamw.h"
#include "thinwire/optim/layout.h"
#include "thinwire/optim/rule.h"

namespace thinwire::optim {

struct AdamwOptions {
  std::array<double, 2> betas = {0.9, 0.95};  // [0, 1)
  double eps = 1e-8;                          // > 0
  double weight_decay = 0.1;                  // of matrices, times lr
  bool bias_correction = true;
};

// What update t is for numbers of this learning rate; `decay_share` of the weight decay is theirs.
kernels::AdamwStep adamw_step(const AdamwOptions& options, int64_t t, double lr, double decay_share);

class Adamw final : public Rule {
 public:
  Adamw(const Layout& layout, const AdamwOptions& options);
  void apply(const Update& update) override;
  State state() override;
  void load(const State& state) override;

 private:
  const std::vector<Span> spans_;
  const std::vector<ParameterGroup> groups_;
  const AdamwOptions options_;
  at::Tensor m_, v_;
};

}  // namespace thinwire::optim
