// How exactly does an emulated link keep to what was asked? Rates of queued and of single messages, round trips, a
// whole collective, and, for reference, what the threads do without a link. Prints tables; README.md has a run.
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "thinwire/base/units.h"
#include "thinwire/comm/world.h"
#include "thinwire/net/emulated_transport.h"

namespace {

using namespace thinwire;
using World = std::shared_ptr<comm::TransportGroup>;

constexpr int64_t KiB = 1024, MiB = 1024 * KiB;
constexpr int64_t kTag = int64_t{1} << 61;  // above those of any group
constexpr double kGoal = 0.03;

at::Tensor bytes(int64_t n) { return at::empty({n}, at::kByte).fill_(1); }

std::string verdict(double asked, double obtained) {
  const double off = obtained / asked - 1;
  return fmt::format("{:+.2f} %{}", 100 * off, std::abs(off) <= kGoal ? "" : " MISSED");
}

// Seconds for `count` messages that are posted at once, from the first post to the last arrival.
double queued(net::Link link, int64_t size, int64_t count) {
  double seconds = 0;
  std::atomic<Clock::time_point> start{};
  comm::run_world(2, [&](World world) {
    net::EmulatedTransport transport(world->transport(), link);
    at::Tensor buffer = bytes(size);
    std::vector<comm::WorkPtr> posts;
    world->barrier();
    if (world->rank() == 0) {
      start = Clock::now();
      for (int64_t i = 0; i < count; ++i) posts.push_back(transport.send(buffer, 1, kTag + i));
      for (auto& post : posts) post->wait();
    } else {
      for (int64_t i = 0; i < count; ++i) transport.recv(buffer, 0, kTag + i)->wait();
      seconds = seconds_between(start, Clock::now());
    }
  });
  return seconds;
}

struct Spread {
  double median, worst;
};
Spread spread(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return {seconds[seconds.size() / 2], seconds.back()};
}

// Seconds of each of `count` messages, the next one posted when the one before has arrived.
Spread single(net::Link link, int64_t size, int64_t count) {
  std::vector<double> seconds;
  std::atomic<Clock::time_point> posted{};
  comm::run_world(2, [&](World world) {
    net::EmulatedTransport transport(world->transport(), link);
    at::Tensor buffer = bytes(size);
    for (int64_t i = 0; i < count; ++i) {
      world->barrier();
      if (world->rank() == 0) {
        posted = Clock::now();
        transport.send(buffer, 1, kTag + i)->wait();
      } else {
        transport.recv(buffer, 0, kTag + i)->wait();
        seconds.push_back(seconds_between(posted, Clock::now()));
      }
    }
  });
  return spread(seconds);
}

// Seconds from a post to the arrival of the answer.
Spread round_trip(net::Link link, int64_t count) {
  std::vector<double> seconds;
  comm::run_world(2, [&](World world) {
    net::EmulatedTransport transport(world->transport(), link);
    at::Tensor buffer = bytes(8);
    world->barrier();
    for (int64_t i = 0; i < count; ++i) {
      const auto start = Clock::now();
      if (world->rank() == 1) transport.recv(buffer, 0, kTag + i)->wait();
      auto post = transport.send(buffer, 1 - world->rank(), kTag + i);
      if (world->rank() == 0) {
        transport.recv(buffer, 1, kTag + i)->wait();
        seconds.push_back(seconds_since(start));
      }
      post->wait();
    }
  });
  return spread(seconds);
}

// Seconds of an all_reduce of n fp32 numbers by m ranks, one after another.
Spread all_reduce(net::Link link, int m, int64_t n, int64_t count) {
  std::vector<double> seconds;
  comm::run_world(m, [&](World world) {
    auto group =
        link.none() ? world : world->with_transport(std::make_shared<net::EmulatedTransport>(world->transport(), link));
    at::Tensor x = at::empty({n}, at::kFloat).fill_(1);
    for (int64_t i = 0; i < count; ++i) {
      world->barrier();
      const auto start = Clock::now();
      group->all_reduce_(x, comm::Reduce::mean, comm::TrafficKind::payload)->wait();
      if (world->rank() == 0) seconds.push_back(seconds_since(start));
    }
  });
  return spread(seconds);
}

}  // namespace

int main() {
  queued({1e9, 0}, 64 * KiB, 100);  // warm up

  fmt::print("Queued messages: obtained rate\n{:>10} {:>16} {:>14} {:>10}\n", "asked", "messages", "Mbit/s", "off");
  for (double rate : {10e6, 30e6, 100e6, 300e6, 1000e6})
    for (int64_t size : {64 * KiB, MiB}) {
      const int64_t count = std::max<int64_t>(2, std::llround(1.5 * rate / 8 / size));
      const double obtained = size * count * 8 / queued({rate, 0}, size, count);
      fmt::print("{:>10} {:>16} {:>14.2f} {:>10}\n", rate_text(rate), fmt::format("{} x {} KiB", count, size / KiB),
                 obtained / 1e6, verdict(rate, obtained));
    }

  fmt::print("\nSingle messages: obtained rate\n{:>10} {:>10} {:>6} {:>14} {:>10} {:>16}\n", "asked", "size", "times",
             "median Mbit/s", "off", "slowest Mbit/s");
  for (double rate : {10e6, 100e6, 300e6, 1000e6})
    for (int64_t size : {MiB, 4 * MiB, 16 * MiB}) {
      const double busy_s = net::sent_at({.rate = rate}, 0, size);
      if (busy_s > 2) continue;
      const int64_t count = std::clamp<int64_t>(std::llround(1.5 / busy_s), 1, 51);
      const Spread s = single({rate, 0}, size, count);
      const double obtained = size * 8 / s.median;
      fmt::print("{:>10} {:>10} {:>6} {:>14.2f} {:>10} {:>15.2f}\n", rate_text(rate), fmt::format("{} MiB", size / MiB),
                 count, obtained / 1e6, verdict(rate, obtained), size * 8 / s.worst / 1e6);
    }

  fmt::print("\nRound trips of 8 bytes at 100mbit\n{:>10} {:>10} {:>12} {:>10} {:>12}\n", "latency", "asked ms",
             "median ms", "off", "slowest ms");
  for (double latency : {0.0, 0.0005, 0.001, 0.005, 0.02, 0.05}) {
    const net::Link link{100e6, latency};
    const double asked = 2 * (latency + net::sent_at(link, 0, 8));
    const Spread s = round_trip(link, 21);
    fmt::print("{:>10} {:>10.3f} {:>12.3f} {:>10} {:>12.3f}\n", seconds_text(latency), 1e3 * asked, 1e3 * s.median,
               latency > 0 ? fmt::format("{:+.2f} %", 100 * (s.median / asked - 1)) : "", 1e3 * s.worst);
  }

  fmt::print(
      "\nall_reduce of fp32, emulated: 2 (M-1)/M n bytes a rank and two latencies\n{:>14} {:>4} {:>8} {:>10} {:>12} "
      "{:>10}\n",
      "link", "M", "n", "asked ms", "median ms", "off");
  for (const char* text : {"10mbit/20ms", "100mbit/20ms", "1gbit/1ms"})
    for (int m : {2, 4}) {
      net::Link link;
      from_text(text, link);
      const int64_t n = static_cast<int64_t>(link.rate / 100);
      const double asked = 2 * (net::sent_at(link, 0, 4 * n * (m - 1) / m) + link.latency);
      const double obtained = all_reduce(link, m, n, 3).median;
      fmt::print("{:>14} {:>4} {:>8} {:>10.1f} {:>12.1f} {:>10}\n", text, m, n, 1e3 * asked, 1e3 * obtained,
                 fmt::format("{:+.2f} %", 100 * (obtained / asked - 1)));
    }

  fmt::print("\nall_reduce of fp32 between threads, no link\n{:>4} {:>10} {:>12} {:>14}\n", "M", "bytes", "median ms",
             "GB/s of buffer");
  for (int m : {2, 4})
    for (int64_t size : {4 * KiB, 256 * KiB, 4 * MiB, 64 * MiB}) {
      const double obtained = all_reduce({}, m, size / 4, size > 16 * MiB ? 11 : 101).median;
      fmt::print("{:>4} {:>10} {:>12.3f} {:>14.2f}\n", m, to_text(Bytes{size}), 1e3 * obtained, size / obtained / 1e9);
    }
}
