// What does periodic averaging itself cost, apart from the wire? Its share of a real training step on one worker, and
// the speed of the outer update against the memory's (a STREAM triad in the same run).
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/clock.h"
#include "thinwire/comm/world.h"
#include "thinwire/data/text.h"
#include "thinwire/dp/catalog.h"
#include "thinwire/kernels/outer.h"
#include "thinwire/models/model.h"
#include "thinwire/optim/adamw.h"

using namespace thinwire;

namespace {

void share_of_a_step() {
  data::DataOptions from;
  data::resolve(from);
  const models::ModelOptions options{.size = "micro", .layers = 4, .width = 128, .heads = 4, .context = 64};
  const auto text = data::load_text(from, options.context);
  fmt::print("one worker, gpt micro, 8 x 64 tokens a step, 200 steps: the strategy's own seconds over the step's\n");
  for (const char* name : {"local_sgd", "slowmo", "diloco", "cocod", "co2"}) {
    comm::run_world(1, [&](comm::GroupPtr group) {
      auto model = models::make_model(options, data::kVocabulary, 1);
      optim::Flat weights(models::parameters_by_unit(*model));
      double strategy_s = 0;
      auto named = dp::preset(name);
      named.periodic.period = 12;
      auto rule = std::make_unique<optim::Adamw>(weights.layout(), optim::AdamwOptions{});
      auto meter = std::make_shared<dp::Meter>();
      auto strategy = std::make_unique<dp::Periodic>(weights.layout(), dp::Groups{.sync = group, .meter = meter},
                                                     std::move(rule), named.periodic, weights.x);
      const std::vector<double> lr = {1e-3, 1e-3};
      const auto begin = Clock::now();
      for (int64_t t = 1; t <= 200; ++t) {
        const auto batch = data::sample(*text, 1, t, 0, 8, options.context);
        weights.grad.zero_();
        model->loss(batch.tokens, batch.targets).backward();
        const auto start = Clock::now();
        strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = lr, .t = t});
        strategy_s += seconds_since(start);
      }
      const double all = seconds_since(begin);
      fmt::print("  {:<10} {:.3f} %   (a step {:.2f} ms)\n", name, 100 * (strategy_s - meter->update_s()) / all,
                 1e3 * all / 200);
    });
  }
}

__attribute__((noinline)) void triad(float* __restrict a, const float* __restrict b, const float* __restrict c, float s,
                                     int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = b[i] + s * c[i];
}

void outer_bandwidth() {
  constexpr int64_t n = 1 << 25;  // 128 MiB a vector: far beyond the caches
  std::vector<at::Tensor> t;
  for (int i = 0; i < 4; ++i) t.push_back(at::empty({n}, at::kFloat).fill_(0.25f + static_cast<float>(i)));
  auto p = [&](int i) { return t[i].mutable_data_ptr<float>(); };
  double triad_s = 1e9, outer_s = 1e9, late_s = 1e9;
  for (int again = 0; again < 15; ++again) {  // interleaved, best of 15
    auto start = Clock::now();
    triad(p(0), p(1), p(2), 0.5f, n);
    triad_s = std::min(triad_s, seconds_since(start));
    start = Clock::now();
    kernels::outer_update({t[0], t[1], t[2], t[3], {}}, {0, n}, {.decay = 0.2f, .bound = 1e-3f});
    outer_s = std::min(outer_s, seconds_since(start));
    start = Clock::now();
    kernels::outer_update({t[0], t[1], t[2], t[3], {}}, {0, n}, {.launch = true, .decay = 0.2f, .bound = 1e-3f});
    late_s = std::min(late_s, seconds_since(start));
  }
  // Bytes a program reads and writes; a triad's write also reads the line it overwrites, which is not counted.
  auto rate = [&](double streams, double seconds) { return streams * 4 * static_cast<double>(n) / seconds / 1e9; };
  const double memory = rate(3, triad_s);
  fmt::print("\none thread, {} M elements, GB/s of what is read and written, best of 15\n", n >> 20);
  fmt::print("  STREAM triad (3 operands)                 {:6.1f}\n", memory);
  fmt::print("  outer update, waiting (3 read, 3 written) {:6.1f}   {:.2f} of the triad\n", rate(6, outer_s),
             rate(6, outer_s) / memory);
  fmt::print("  outer update, late    (4 read, 4 written) {:6.1f}   {:.2f} of the triad\n", rate(8, late_s),
             rate(8, late_s) / memory);
}

}  // namespace

int main() {
  at::set_num_threads(1);
  share_of_a_step();
  outer_bandwidth();
}
