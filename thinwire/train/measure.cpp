#include "thinwire/train/measure.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/comm/world.h"
#include "thinwire/kernels/adamw.h"
#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/outer.h"
#include "thinwire/kernels/reduce.h"
#include "thinwire/kernels/sgd.h"
#include "thinwire/net/emulated_transport.h"

#define THINWIRE_TEXT_OF(x) #x
#define THINWIRE_TEXT(x) THINWIRE_TEXT_OF(x)

namespace thinwire::train {
namespace {

constexpr int64_t kNumel = 1 << 23;  // 32 MiB a vector
constexpr int kTries = 7;

THINWIRE_CLONES void triad(float* __restrict a, const float* __restrict b, const float* __restrict c, float s,
                           int64_t n) {
  for (int64_t i = 0; i < n; ++i) a[i] = b[i] + s * c[i];
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return seconds_since(start);
}

double copy_gigabytes_per_s() {
  const at::Tensor from = at::zeros({kNumel}), to = at::zeros({kNumel});
  double best = 1e9;
  for (int i = 0; i < kTries; ++i)
    best =
        std::min(best, seconds_of([&] { std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes()); }));
  return static_cast<double>(from.nbytes()) / best / 1e9;
}

// Mean seconds of `times` all-reduces, by rank 0's clock.
double all_reduce_s(int ranks, int64_t bytes, int times, const net::Link& link) {
  double seconds = 0;
  comm::run_world(ranks, [&](std::shared_ptr<comm::TransportGroup> world) {
    const auto linked = world->with_transport(
        link.none() ? world->transport() : std::make_shared<net::EmulatedTransport>(world->transport(), link));
    const at::Tensor x = at::zeros({bytes / 4});
    linked->all_reduce_(x, comm::Reduce::sum, comm::TrafficKind::payload)->wait();  // the first one gets its memory
    world->barrier();
    const double own = seconds_of([&] {
      for (int i = 0; i < times; ++i) linked->all_reduce_(x, comm::Reduce::sum, comm::TrafficKind::payload)->wait();
    });
    if (world->rank() == 0) seconds = own / times;
  });
  return seconds;
}

}  // namespace

bool measure_kernels(const std::function<bool(const KernelFigure&)>& report) {
  at::set_num_threads(1);
  std::array<at::Tensor, 4> vectors;
  for (auto& v : vectors) v = at::empty({kNumel}).fill_(0.25);
  auto p = [&](int i) { return vectors[i].mutable_data_ptr<float>(); };
  const kernels::AdamwStep adamw{kernels::moments({0.9, 0.95}, 1e-8), 0.9999f, 1e-3f, 1.0f};
  const kernels::SgdStep sgd{1e-3f, 0.9f, 1e-4f};
  const at::Tensor &x = vectors[0], &g = vectors[1], &m = vectors[2], &v = vectors[3];
  const kernels::Range all{0, kNumel};
  const kernels::OuterBuffers outer{x, g, m, v, {}};
  struct Pass {
    const char* name;
    int reads, writes;
    std::function<void()> run;
    double best = 1e9;
  };
  std::vector<Pass> passes = {
      {"triad", 2, 1, [&] { triad(p(0), p(1), p(2), 0.5f, kNumel); }},
      {"copy", 1, 1, [&] { std::memcpy(p(0), p(1), kNumel * 4); }},
      {"adamw", 4, 3, [&] { kernels::adamw(x, x, g, m, v, all, adamw); }},
      {"sgd", 3, 2, [&] { kernels::sgd(x, x, g, m, all, sgd); }},
      {"outer update, waiting", 3, 3, [&] { kernels::outer_update(outer, all, {.decay = 0.2f, .bound = 1e-3f}); }},
      {"outer update, late", 4, 4,
       [&] { kernels::outer_update(outer, all, {.launch = true, .decay = 0.2f, .bound = 1e-3f}); }},
      {"sum of squares", 1, 0, [&] { kernels::sum_squares(x); }},
  };
  for (int i = 0; i < kTries; ++i)  // in turns, so that a slow moment hits all alike
    for (auto& pass : passes) pass.best = std::min(pass.best, seconds_of(pass.run));
  double memory = 0;
  for (const auto& pass : passes) {
    KernelFigure figure{.name = pass.name, .reads = pass.reads, .writes = pass.writes};
    figure.gigabytes_per_s = (pass.reads + pass.writes) * 4.0 * static_cast<double>(kNumel) / pass.best / 1e9;
    if (memory == 0) memory = figure.gigabytes_per_s;
    figure.share_of_triad = figure.gigabytes_per_s / memory;
    if (!report(figure)) return false;
  }
  return true;
}

bool measure_comm(const std::function<bool(const CommFigure&)>& report) {
  const double copy = copy_gigabytes_per_s();
  for (int ranks : {2, 4})
    for (auto [bytes, times] : {std::pair{int64_t{64} << 10, 100}, {int64_t{1} << 20, 30}, {int64_t{16} << 20, 5}}) {
      CommFigure figure{.ranks = ranks, .bytes = bytes, .seconds = all_reduce_s(ranks, bytes, times, {})};
      const double sent = 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes);
      figure.gigabytes_per_s = sent / figure.seconds / 1e9;
      figure.share_of_copy = figure.gigabytes_per_s / copy;
      if (!report(figure)) return false;
    }
  return true;
}

bool measure_links(const std::function<bool(const LinkFigure&)>& report) {
  struct Case {
    const char* link;
    double bits_per_s, latency_s;
    int64_t bytes;
    int times;
  };
  for (const Case& c : {Case{"1gbit/1ms", 1e9, 1e-3, 1 << 20, 20}, Case{"100mbit/20ms", 1e8, 20e-3, 1 << 20, 3},
                        Case{"10mbit/80ms", 1e7, 80e-3, 1 << 16, 2}}) {
    net::Link link;
    from_text(c.link, link);
    LinkFigure figure{.link = c.link, .bytes = c.bytes};
    // Two ranks: half the vector there and half back, each a latency late.
    figure.asked_s = 2 * (static_cast<double>(c.bytes) / 2 * 8 / c.bits_per_s + c.latency_s);
    figure.obtained_s = all_reduce_s(2, c.bytes, c.times, link);
    if (!report(figure)) return false;
  }
  return true;
}

std::string kernel_clone() {
  if (std::string_view(THINWIRE_TEXT(THINWIRE_CLONES)).empty()) return "plain";
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return "avx512f";
  if (__builtin_cpu_supports("avx2")) return "avx2";
#endif
  return "default";
}

TimeKeeping measure_time_keeping() {
  TimeKeeping found{.tick_s = 1};
  for (int i = 0; i < 1000; ++i) {
    const auto begin = Clock::now();
    auto end = Clock::now();
    while (end == begin) end = Clock::now();
    found.tick_s = std::min(found.tick_s, seconds_between(begin, end));
  }
  std::vector<double> late;
  for (int i = 0; i < 40; ++i) {
    constexpr double kSleep = 1e-3;
    late.push_back(seconds_of([] { std::this_thread::sleep_for(to_duration(kSleep)); }) - kSleep);
  }
  std::ranges::sort(late);
  found.late_s = late[late.size() / 2];
  found.worst_s = late.back();
  return found;
}

}  // namespace thinwire::train
