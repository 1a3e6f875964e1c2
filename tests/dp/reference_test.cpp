// The 1-bit strategies beside recorded runs of DeepSpeed's optimizers, step by step; fixtures/reference.h has the runs.
#include "fixtures/reference.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "thinwire/comm/world.h"
#include "thinwire/dp/catalog.h"
#include "thinwire/optim/catalog.h"
#include "thinwire/optim/flat.h"

namespace thinwire::dp {

namespace reference {
void PrintTo(const Recording& run, std::ostream* out) { *out << run.strategy << " with " << run.workers << " workers"; }
}  // namespace reference

namespace {

using reference::Recording;

constexpr double kLimit = 1e-5;  // of the distance DeepSpeed has travelled

// The formulas of peers/record_fixtures.py. Elements count through all tensors.
uint64_t mixed(const Recording& run, int64_t t, int who, int64_t element) {
  uint64_t z = (((run.seed * 4096 + t) * 16 + who) * 65536 + element) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

double unit(const Recording& run, int64_t t, int who, int64_t element) {
  return (2 * static_cast<double>(mixed(run, t, who, element) >> 54) - 1023) / 1024;
}

double start(const Recording& run, const reference::Tensor& tensor, int64_t element) {
  return tensor.start * unit(run, 0, 0, element);
}

double gradient(const Recording& run, const reference::Tensor& tensor, int64_t element, int64_t t, int rank) {
  const double size = (t <= run.freeze ? tensor.before : tensor.after) * static_cast<double>(3 + t % 3) / 4;
  const double spread = static_cast<double>((mixed(run, 0, 2, element) >> 61) + 1) / 4;
  return size * spread * (unit(run, 0, 1, element) + unit(run, t, 0, element) + unit(run, t, rank + 1, element));
}

double rate(int64_t t) { return static_cast<double>(64 - t) / 4096; }

// f(tensor, element) for every element, into the flat vector.
template <class F>
void fill(const Recording& run, const optim::Layout& layout, at::Tensor flat, F&& f) {
  int64_t element = 0;
  for (const optim::Piece& piece : layout.pieces)
    for (int64_t i = 0; i < piece.numel; ++i)
      flat.mutable_data_ptr<float>()[piece.at + i] = static_cast<float>(f(run.tensors[piece.tensor], element++));
}

// Two units, so that padding lies between the tensors.
optim::Flat make_weights(const Recording& run) {
  std::vector<std::vector<at::Tensor>> units(2);
  for (const auto& tensor : run.tensors)
    units[units[0].size() < 2 ? 0 : 1].push_back(tensor.columns > 0 ? at::zeros({tensor.rows, tensor.columns})
                                                                    : at::zeros({tensor.rows}));
  return optim::Flat(units);
}

// The flat weights of rank 0 after every step, the first ones before the first step.
std::vector<at::Tensor> play(const Recording& run, optim::Layout& layout) {
  StrategyOptions options = preset(run.strategy);
  options.one_bit.mode = "deepspeed";
  options.one_bit.freeze = {.automatic = false, .step = run.freeze};
  options.zero_one = {run.var_update_scaler, run.local_step_scaler, run.local_step_clipper};
  optim::OptimOptions optim;
  optim.lr = rate(1);
  optim.betas = {run.beta1, run.beta2};
  optim.eps = run.eps;
  optim.weight_decay = run.weight_decay;
  optim.bias_correction = false;
  optim.clip = std::numeric_limits<double>::infinity();

  std::vector<at::Tensor> played;
  comm::run_world(run.workers, [&](comm::GroupPtr group) {
    optim::Flat weights = make_weights(run);
    fill(run, weights.layout(), weights.x, [&](const auto& tensor, int64_t i) { return start(run, tensor, i); });
    const StrategyPtr strategy = make_strategy(options, weights, {.sync = group}, optim);
    auto keep = [&] {
      if (group->rank() == 0) played.push_back(weights.x.clone());
    };
    keep();
    for (int64_t t = 1; t <= run.steps.back(); ++t) {
      fill(run, weights.layout(), weights.grad,
           [&](const auto& tensor, int64_t i) { return gradient(run, tensor, i, t, group->rank()); });
      const double lr[] = {rate(t), rate(t)};  // of matrices, of vectors
      strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = lr, .t = t});
      keep();
    }
    if (group->rank() == 0) layout = weights.layout();
  });
  return played;
}

class Reference : public testing::TestWithParam<Recording> {};

// Every tensor by itself: a wrong rule for a small one would be lost in the norm of the large ones. The first
// difference is reported, what comes after it says nothing.
TEST_P(Reference, WeightsAreDeepSpeedsAfterEveryRecordedStep) {
  const Recording& run = GetParam();
  optim::Layout layout;
  const auto played = play(run, layout);
  const float* theirs = run.weights.data();
  for (const int64_t t : run.steps)
    for (const optim::Piece& piece : layout.pieces) {
      const float *ours = played[t].const_data_ptr<float>() + piece.at,
                  *from = played[0].const_data_ptr<float>() + piece.at;
      double apart = 0, travelled = 0;
      for (int64_t i = 0; i < piece.numel; ++i, ++theirs) {
        apart += std::pow(static_cast<double>(ours[i]) - *theirs, 2);
        travelled += std::pow(static_cast<double>(*theirs) - from[i], 2);
      }
      ASSERT_GT(travelled, 0);
      ASSERT_LE(std::sqrt(apart / travelled), kLimit) << "after step " << t << ", tensor " << piece.tensor;
    }
  EXPECT_EQ(theirs, run.weights.data() + run.weights.size());
}

INSTANTIATE_TEST_SUITE_P(DeepSpeed, Reference, testing::ValuesIn(reference::kRuns), [](const auto& info) {
  return std::string(info.param.strategy) + "_" + std::to_string(info.param.workers);
});

}  // namespace
}  // namespace thinwire::dp
