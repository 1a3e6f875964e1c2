// Does drip keep computing, does it use the wire evenly, what does its own work cost, and how much does it send?
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "benchmarks/best_of.h"
#include "benchmarks/played.h"
#include "thinwire/compress/compressed_all_reduce.h"
#include "thinwire/data/text.h"
#include "thinwire/dp/slicing.h"
#include "thinwire/models/model.h"

using namespace thinwire;
using namespace thinwire::benchmarks;

namespace {

constexpr int kWorkers = 4;
constexpr int64_t kNumel = 4 << 20;

// What one worker sends for a slice of drip, in its two halves.
int64_t slice_bytes(int64_t numel, int64_t slices) {
  const int64_t blocks = (numel / slices + 1023) / 1024, chunk = (blocks + kWorkers - 1) / kWorkers * 1024;
  return 2 * (kWorkers - 1) * compress::make_codec("one_bit")->bytes(chunk);
}

net::Link link_for_slices(double transfer_s, double latency_s) {
  return {.rate = 8.0 * static_cast<double>(slice_bytes(kNumel, 8)) / (transfer_s - 2 * latency_s),
          .latency = latency_s};
}

void utilisation() {
  constexpr double kStep = 0.1, kLatency = 0.005;
  constexpr int64_t kSteps = 100;
  fmt::print(
      "drip, {} workers, {}M parameters, steps of {:.0f} ms (played), {:.0f} ms latency: a slice takes r steps\n",
      kWorkers, kNumel >> 20, kStep * 1e3, kLatency * 1e3);
  fmt::print("{:>6}{:>14}{:>14}\n", "r", "link", "utilisation");
  for (double r : {0.25, 0.5, 0.9}) {
    const auto link = link_for_slices(r * kStep, kLatency);
    const auto played = play(dp::preset("drip"), kWorkers, kSteps, kStep, kNumel, link, kPlainSgd, 5);
    fmt::print("{:>6}{:>9.1f} Mbit{:>14.3f}\n", r, link.rate / 1e6, played.utilisation());
  }
}

// Most bytes that a worker sends in a second, over what it sends in the mean second.
double peak_to_mean(dp::StrategyOptions options, double seconds) {
  constexpr double kStep = 0.05, kWindow = 1.0;
  std::vector<int64_t> windows;
  comm::run_world(kWorkers, [&](std::shared_ptr<comm::TransportGroup> world) {
    auto linked = world->with_transport(
        std::make_shared<net::EmulatedTransport>(world->transport(), net::Link{.rate = 1e9, .latency = 0.005}));
    optim::Flat weights({{at::zeros({kNumel})}});
    auto strategy = dp::make_strategy(options, weights, {.sync = linked}, kPlainSgd);
    const std::vector<double> lr = {1e-3, 1e-3};
    std::atomic<bool> over = false;
    auto step = [&](int64_t t) {
      std::this_thread::sleep_for(to_duration(kStep));
      strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = lr, .t = t});
    };
    int64_t t = 0;
    while (t < 30) step(++t);  // past co2's first, waited-for round
    world->barrier();
    std::thread meter([&] {
      if (world->rank() != 0) return;
      const auto begin = Clock::now();
      int64_t before = linked->ledger().sent();
      for (int64_t w = 1; !over; ++w) {
        std::this_thread::sleep_until(begin + to_duration(static_cast<double>(w) * kWindow));
        const int64_t now = linked->ledger().sent();
        windows.push_back(now - before);
        before = now;
      }
    });
    const auto steps = static_cast<int64_t>(seconds / kStep);
    for (int64_t i = 0; i < steps; ++i) step(++t);
    over = true;
    meter.join();
    strategy->finish(weights.x);
  });
  windows.pop_back();  // the run ended within it
  double sum = 0;
  for (int64_t w : windows) sum += static_cast<double>(w);
  return static_cast<double>(std::ranges::max(windows)) * static_cast<double>(windows.size()) / sum;
}

double best_ms(const std::function<void()>& f) { return 1e3 * best_of(9, f); }

// One thread; a worker's share of all that drip does in a step, at the size of gpt mini.
void own_work() {
  at::set_num_threads(1);
  data::DataOptions from;
  data::resolve(from);
  models::ModelOptions options{.size = "mini", .context = 256};
  models::apply_size(options);
  const auto text = data::load_text(from, options.context);
  auto model = models::make_model(options, data::kVocabulary, 1);
  optim::Flat weights(models::parameters_by_unit(*model));
  const auto rule = optim::make_rule({}, weights.layout());
  const auto batch = data::sample(*text, 1, 1, 0, 4, options.context);
  const std::vector<double> lr = {1e-3, 1e-3};
  double step_ms = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto begin = Clock::now();
    weights.zero_grad();
    model->loss(batch.tokens, batch.targets).backward();
    rule->apply({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = lr, .t = 1});
    step_ms = std::min(step_ms, 1e3 * seconds_since(begin));
  }

  const int64_t numel = weights.layout().numel;
  std::vector<kernels::Part> parts;
  dp::Slicing{.numel = numel}.parts_of(8, 0, 0, parts);
  const int64_t n = parts.back().packed + parts.back().numel, chunk = (n / 1024 / kWorkers + 1) * 1024;
  const auto codec = compress::make_codec("one_bit");
  const at::Tensor z = weights.x.clone().mul_(0.999), y = at::empty({n}), message = at::empty({n});
  const at::Tensor error = at::zeros({n}), chunk_error = at::zeros({chunk}), mean = at::zeros({chunk});
  const at::Tensor bytes = at::empty({codec->bytes(n)}, at::kByte), small = at::empty({codec->bytes(chunk)}, at::kByte);
  const double take = best_ms([&] { kernels::slice_take(parts, weights.x, z, y, message); });
  const double encode = best_ms([&] { codec->encode(message, error, bytes); });
  codec->encode(mean, chunk_error, small);
  const double serve = best_ms([&] {
    for (int r = 0; r < kWorkers; ++r) codec->decode(small, mean, {}, r > 0);
    mean.div_(kWorkers);
    codec->encode(mean, chunk_error, small);
  });
  const double decode = best_ms([&] { codec->decode(bytes, message); });
  const double merge = best_ms([&] {
    kernels::slice_merge(parts, {.x = weights.x, .answer = message, .y = y, .z = z}, {.merge = kernels::Merge::anchor});
  });
  const double all = take + encode + serve + decode + merge;
  fmt::print("\nown work of a step of drip, {:.1f}M parameters, a slice of {:.2f}M, one thread, ms\n",
             static_cast<double>(numel) / 1e6, static_cast<double>(n) / 1e6);
  fmt::print("  take {:.2f}  encode {:.2f}  serve {:.2f}  decode {:.2f}  merge {:.2f}  together {:.2f}\n", take, encode,
             serve, decode, merge, all);
  fmt::print("  a training step (gpt mini, 4 x 256 tokens, adamw): {:.0f} ms; share {:.2f} %\n", step_ms,
             100 * all / step_ms);
}

void bytes_sent() {
  constexpr int64_t kSteps = 16;
  auto sent = [](const dp::StrategyOptions& options) {
    double bytes = 0;
    comm::run_world(kWorkers, [&](comm::GroupPtr group) {
      optim::Flat weights({{at::zeros({10 << 20})}});
      auto strategy = dp::make_strategy(options, weights, {.sync = group}, kPlainSgd);
      const std::vector<double> lr = {1e-3, 1e-3};
      const int64_t before = group->ledger().sent();
      for (int64_t t = 1; t <= kSteps; ++t)
        strategy->step({.x = weights.x, .next = weights.x, .grad = weights.grad, .lr = lr, .t = t});
      strategy->drain();
      if (group->rank() == 0) bytes = static_cast<double>(group->ledger().sent() - before);
    });
    return bytes;
  };
  const double dense = sent(dp::preset("all_reduce"));
  fmt::print("\nbytes of {} training steps by the ledger, 10M parameters, {} workers\n", kSteps, kWorkers);
  for (int64_t slices : {4, 8, 16}) {
    auto options = dp::preset("drip");
    options.slices.slices = slices;
    const double ours = sent(options);
    fmt::print("  drip, {:>2} slices {:>7.2f} MB, 1/{:.1f} of all_reduce's {:.0f} MB\n", slices, ours / 1e6,
               dense / ours, dense / 1e6);
  }
}

}  // namespace

int main() {
  utilisation();
  auto co2 = dp::preset("co2");
  co2.periodic.period = 60;
  fmt::print("\nbytes a worker sends in a second, most over mean, 20 steps a second, 18 s, 1 Gbit/s\n");
  fmt::print("  drip {:.2f}   co2 (rounds of 3 s) {:.2f}\n", peak_to_mean(dp::preset("drip"), 18),
             peak_to_mean(co2, 18));
  own_work();
  bytes_sent();
}
