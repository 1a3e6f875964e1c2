// What does one bit per number cost, and what does it save? Kernels, the collective, the bytes, and steps per second.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "benchmarks/best_of.h"
#include "benchmarks/played.h"
#include "thinwire/base/random.h"
#include "thinwire/compress/compressed_all_reduce.h"
#include "thinwire/train/run.h"

using namespace thinwire;
using benchmarks::best_of;

namespace {

struct Pass {
  double seconds, copy_seconds;
};

// The best of 21 tries of `pass` and of a copy that moves as many bytes, read and written together; in turns, so that a
// slow moment hits both.
Pass beside_a_copy(double bytes, const std::function<void()>& pass) {
  const auto n = static_cast<int64_t>(bytes / 8);
  const at::Tensor from = at::zeros({n}), to = at::zeros({n});
  Pass best{1e9, 1e9};
  for (int i = 0; i < 21; ++i) {
    best.copy_seconds = std::min(
        best.copy_seconds, best_of(1, [&] { std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes()); }));
    best.seconds = std::min(best.seconds, best_of(1, pass));
  }
  return best;
}

void kernel_rates() {
  fmt::print("on one core, best of 21: GB/s of fp32, and the share of a copy that moves the same bytes\n");
  fmt::print("{:>10}  {:>9}  {:>16}  {:>7}  {:>12}  {:>7}\n", "codec", "numbers", "encode + error", "share", "decode",
             "share");
  for (const char* name : {"one_bit", "int8", "int4", "int2"})
    for (int64_t n : {int64_t{1} << 20, int64_t{1} << 24}) {
      const auto codec = compress::make_codec(name);
      const at::Tensor value = at::empty({n}).normal_(0, 1, generator(1, "bench")), out = at::zeros({n});
      const at::Tensor error = at::zeros({n}), message = at::zeros({codec->bytes(n)}, at::kByte);
      const auto size = static_cast<double>(n), packed = static_cast<double>(message.numel());
      const auto encode = beside_a_copy(12 * size + packed, [&] { codec->encode(value, error, message); });
      const auto decode = beside_a_copy(4 * size + packed, [&] { codec->decode(message, out); });
      fmt::print("{:>10}  {:>9}  {:>11.2f} GB/s  {:>7.2f}  {:>7.2f} GB/s  {:>7.2f}\n", name, n,
                 4e-9 * size / encode.seconds, encode.copy_seconds / encode.seconds, 4e-9 * size / decode.seconds,
                 decode.copy_seconds / decode.seconds);
      std::fflush(stdout);
    }
}

struct Took {
  double seconds = 0, bytes = 0;  // of one exchange; sent by a rank
};

// The median exchange of n numbers among `workers`, by a codec or ("fp32") by the group's own all_reduce.
Took exchange(const std::string& codec, int workers, int64_t n, const net::Link& link, int times) {
  Took took;
  comm::run_world(workers, [&](std::shared_ptr<comm::TransportGroup> world) {
    auto linked = link.none()
                      ? world->with_transport(world->transport())
                      : world->with_transport(std::make_shared<net::EmulatedTransport>(world->transport(), link));
    std::unique_ptr<compress::CompressedAllReduce> mean;
    compress::Errors errors;
    if (codec != "fp32") {
      mean = std::make_unique<compress::CompressedAllReduce>(linked, compress::make_codec(codec));
      errors = mean->errors(n);
    }
    at::Tensor x = at::empty({n}).normal_(0, 1, generator(1, "bench", world->rank()));
    std::vector<double> seconds;
    const int64_t before = linked->ledger().sent();
    for (int i = 0; i <= times; ++i) {
      world->barrier();
      const auto begin = Clock::now();
      (mean ? mean->start(x, errors) : linked->all_reduce_(x, comm::Reduce::mean, comm::TrafficKind::payload))->wait();
      if (i > 0) seconds.push_back(seconds_since(begin));  // the first one makes buffers
    }
    std::ranges::sort(seconds);
    if (world->rank() == 0)
      took = {seconds[seconds.size() / 2], static_cast<double>(linked->ledger().sent() - before) / (times + 1)};
  });
  return took;
}

void collective() {
  fmt::print("\nmean of 1M numbers among 4 workers over 100mbit/1ms\n");
  fmt::print("{:>10}  {:>10}  {:>10}  {:>10}  {:>12}\n", "", "seconds", "speed", "bytes", "fewer bytes");
  net::Link link;
  from_text("100mbit/1ms", link);
  const auto fp32 = exchange("fp32", 4, 1 << 20, link, 5);
  for (const char* codec : {"fp32", "int8", "one_bit"}) {
    const auto took = exchange(codec, 4, 1 << 20, link, 5);
    fmt::print("{:>10}  {:>10.4f}  {:>9.1f}x  {:>10.0f}  {:>11.2f}x\n", codec, took.seconds,
               fp32.seconds / took.seconds, took.bytes, fp32.bytes / took.bytes);
    std::fflush(stdout);
  }
  fmt::print("\nno link, 2 workers: seconds, and the link rate below which the codec pays\n");
  fmt::print("{:>10}  {:>10}  {:>10}  {:>14}  {:>10}  {:>14}\n", "numbers", "fp32 s", "int8 s", "pays below",
             "one_bit s", "pays below");
  for (int64_t n : {int64_t{1} << 20, int64_t{1} << 23, int64_t{1} << 26}) {
    const int times = n > 1 << 24 ? 3 : 9;
    const auto plain = exchange("fp32", 2, n, {}, times);
    fmt::print("{:>10}  {:>10.4f}", n, plain.seconds);
    for (const char* codec : {"int8", "one_bit"}) {
      const auto took = exchange(codec, 2, n, {}, times);
      const double rate = 8 * (plain.bytes - took.bytes) / (took.seconds - plain.seconds);
      fmt::print("  {:>10.4f}  {:>14}", took.seconds,
                 rate > 0 ? fmt::format("{:.1f} Gbit/s", rate * 1e-9) : std::string("any rate"));
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
}

void whole_run() {
  auto run = [](const std::string& strategy, int64_t bits) {
    train::Recipe recipe;
    recipe.model = {.size = "nano", .context = 32};
    recipe.optim.name = "lamb";
    recipe.optim.lr = 0.02;
    recipe.strategy = dp::preset(strategy);
    recipe.strategy.one_bit.warmup_bits = {bits};
    recipe.train.steps = 400;
    recipe.train.eval_every = 0;
    data::resolve(recipe.data);
    train::Observer silent;
    return train::run(recipe, {}, silent);
  };
  const auto plain = run("all_reduce", 32);
  fmt::print("\nwhole runs of 400 steps, gpt nano, 4 workers, lamb, automatic freeze\n");
  fmt::print("{:>14}  {:>12}  {:>10}  {:>10}  {:>12}\n", "", "warmup_bits", "loss", "MB sent", "fewer bytes");
  fmt::print("{:>14}  {:>12}  {:>10.4f}  {:>10.1f}\n", "all_reduce", "", plain.val_loss, plain.wire_bytes * 1e-6);
  for (int64_t bits : {32, 4}) {
    const auto own = run("one_bit_lamb", bits);
    fmt::print("{:>14}  {:>12}  {:>10.4f}  {:>10.1f}  {:>11.1f}x\n", "one_bit_lamb", bits, own.val_loss,
               own.wire_bytes * 1e-6, plain.wire_bytes / own.wire_bytes);
    std::fflush(stdout);
  }
}

void steps_per_second() {
  constexpr double step_s = 0.1;
  constexpr int64_t numel = 1 << 20, steps = 40;
  fmt::print(
      "\nplayed compute: steps of 100 ms, 2 workers, 2 ms latency, lamb; one_bit_lamb in its compressed stage\n");
  fmt::print("{:>9}  {:>14}  {:>16}  {:>8}\n", "T_c / T_s", "all_reduce /s", "one_bit_lamb /s", "ratio");
  auto compressed = dp::preset("one_bit_lamb");
  compressed.one_bit.freeze = {.automatic = false, .step = 1};
  const optim::OptimOptions lamb{.name = "lamb", .clip = INFINITY};
  for (double ratio : {6.0, 8.0, 10.0}) {
    const auto link = benchmarks::link_for(ratio * step_s, numel, 2, 0.002);
    const auto slow = benchmarks::play(dp::preset("all_reduce"), 2, 10, step_s, numel, link, lamb);
    const auto fast = benchmarks::play(compressed, 2, steps, step_s, numel, link, lamb, /*unmeasured=*/1);
    fmt::print("{:>9}  {:>14.2f}  {:>16.2f}  {:>7.2f}x\n", ratio, 10 / slow.seconds,
               static_cast<double>(steps) / fast.seconds,
               static_cast<double>(steps) / fast.seconds * slow.seconds / 10);
    std::fflush(stdout);
  }
}

}  // namespace

int main() {
  at::set_num_threads(1);
  kernel_rates();
  collective();
  whole_run();
  steps_per_second();
}
