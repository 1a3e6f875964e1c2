#include "thinwire/comm/world.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "thinwire/base/errors.h"
#include "thinwire/comm/errors.h"
#include "thinwire/comm/threads.h"

namespace thinwire::comm {
namespace {

constexpr auto kControl = TrafficKind::control;
constexpr int kPings = 9;

at::Tensor number(int64_t value) { return at::empty({1}, at::kLong).fill_(value); }

// Tensors own their bytes: a message whose wait() threw may still be read.
at::Tensor tensor_of(const std::string& bytes) {
  const at::Tensor x = at::empty({std::ssize(bytes)}, at::kByte);
  std::ranges::copy(bytes, x.mutable_data_ptr<uint8_t>());
  return x;
}
std::string string_of(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

// Nobody sends more than this: a larger size was not meant as one.
constexpr int64_t kMaxBytes = int64_t{1} << 32;
at::Tensor room_for(const at::Tensor& size) {
  const auto n = size.item<int64_t>();
  TORCH_CHECK(n >= 0 && n <= kMaxBytes, "[comm] ", n, " bytes were announced");
  return at::empty({n}, at::kByte);
}

}  // namespace

std::string World::broadcast_bytes(std::string bytes, int root) const {
  const at::Tensor size = number(std::ssize(bytes));
  group->broadcast_(size, root, kControl)->wait();
  const at::Tensor all = rank() == root ? tensor_of(bytes) : room_for(size);
  group->broadcast_(all, root, kControl)->wait();
  return string_of(all);
}

std::vector<std::string> World::gather_bytes(const std::string& own) const {
  if (!is_rank0()) {
    group->send(number(std::ssize(own)), 0, kControl)->wait();
    group->send(tensor_of(own), 0, kControl)->wait();
    return {};
  }
  std::vector<std::string> all = {own};
  for (int rank = 1; rank < group->size(); ++rank) {
    const at::Tensor size = number(0);
    group->recv(size, rank, kControl)->wait();
    const at::Tensor bytes = room_for(size);
    group->recv(bytes, rank, kControl)->wait();
    all.push_back(string_of(bytes));
  }
  return all;
}

// Rank 0 asks each rank for its time; the answer was given half way between question and arrival, best where the two
// are closest.
std::vector<Clock::duration> World::clock_offsets() const {
  std::vector<Clock::duration> offsets(is_rank0() ? size() : 0);
  for (int rank = 1; rank < size(); ++rank) {
    auto closest = Clock::duration::max();
    for (int i = 0; i < kPings; ++i) {
      if (is_rank0()) {
        const at::Tensor answer = number(0);
        const auto asked = Clock::now();
        const auto question = group->send(number(0), rank, kControl);
        group->recv(answer, rank, kControl)->wait();
        const auto took = Clock::now() - asked;
        question->wait();
        if (took >= closest) continue;
        closest = took;
        offsets[rank] = asked + took / 2 - Clock::time_point(Clock::duration(answer.item<int64_t>()));
      } else if (rank == group->rank()) {
        group->recv(number(0), 0, kControl)->wait();
        group->send(number(Clock::now().time_since_epoch().count()), 0, kControl)->wait();
      }
    }
  }
  return offsets;
}

void World::together(const std::function<void()>& work) const {
  std::exception_ptr own;
  std::string why;  // after a character for its family
  try {
    work();
  } catch (const BadInput& error) {
    own = std::current_exception(), why = "B" + one_line(error);
  } catch (const std::exception& error) {
    own = std::current_exception(), why = "F" + one_line(error);
  } catch (...) {
    own = std::current_exception(), why = "Fan exception of unknown type";
  }
  const at::Tensor failed = number(own ? size() - rank() : 0);
  group->all_reduce_(failed, Reduce::max, kControl)->wait();
  const int64_t first = failed.item<int64_t>();
  if (first == 0) return;
  const auto rank = static_cast<int>(size() - first);
  try {
    why = broadcast_bytes(std::move(why), rank);
    group->barrier();  // a rank that throws may end the world: not before all have heard
  } catch (...) {      // what happened here is worth more
    if (!own && why.empty()) throw;
  }
  if (own) std::rethrow_exception(own);
  throw FailedElsewhere(rank, why.substr(1), why[0] == 'B');
}

void run_threads(int size, const std::function<void(World&)>& rank_main, const WorldOptions& options) {
  auto transports = thread_transports(size, options.timeout_s);
  std::mutex mutex;
  std::exception_ptr first;
  bool first_is_echo = false;  // of what another rank threw
  auto failed = [&](int rank, const std::string& why, bool echo) {
    {
      std::lock_guard lock(mutex);
      if (!first || (first_is_echo && !echo)) first = std::current_exception(), first_is_echo = echo;
    }
    transports[rank]->fail(rank, why);
  };
  auto guarded = [&](int rank, auto&& work) {
    try {
      work();
    } catch (const FailedElsewhere& error) {
      failed(rank, one_line(error), true);
    } catch (const PeerLost& error) {
      failed(rank, one_line(error), true);
    } catch (const std::exception& error) {
      failed(rank, one_line(error), false);
    } catch (...) {
      failed(rank, "an exception of unknown type", false);
    }
  };
  std::vector<std::thread> ranks;
  bool started = true;  // a thread that cannot be had fails the world like a rank that throws
  for (int rank = 0; rank < size && started; ++rank)
    guarded(rank, [&] {
      started = false;
      ranks.emplace_back([&, rank] {
        guarded(rank, [&] {
          at::set_num_threads(options.threads);
          World world{.group = TransportGroup::world(transports[rank])};
          guarded(rank, [&] { rank_main(world); });  // the others are told before this rank waits for what is in flight
          world.close();
        });
      });
      started = true;
    });
  for (auto& rank : ranks) rank.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace thinwire::comm
