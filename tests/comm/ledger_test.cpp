#include "thinwire/comm/ledger.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "thinwire/comm/world.h"
#include "thinwire/comm/wrapped_transport.h"

namespace thinwire::comm {
namespace {

// Counts what really passes.
class CountingTransport final : public WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  WorkPtr send(at::Tensor bytes, int to, int64_t tag) override {
    sent += bytes.nbytes();
    return WrappedTransport::send(std::move(bytes), to, tag);
  }
  RecvWorkPtr recv(at::Tensor bytes, int from, int64_t tag) override {
    received += bytes.nbytes();
    return WrappedTransport::recv(std::move(bytes), from, tag);
  }

  std::atomic<int64_t> sent = 0, received = 0;
};

struct Counts {
  int64_t sent = 0, received = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
};
std::ostream& operator<<(std::ostream& out, const Counts& c) {
  return out << c.sent << " sent " << c.received << " received";
}

Counts counts(const Ledger& ledger, TrafficKind kind) { return {ledger.sent(kind), ledger.received(kind)}; }

int64_t chunk_bytes(int64_t n, int k, int m) { return 4 * ((k + 1) * n / m - k * n / m); }

using Call = std::function<WorkPtr(Group&, int64_t n, TrafficKind)>;
WorkPtr all_reduce(Group& g, int64_t n, TrafficKind kind) {
  return g.all_reduce_(at::empty({n}, at::kFloat).zero_(), Reduce::sum, kind);
}
WorkPtr all_gather(Group& g, int64_t n, TrafficKind kind) {
  return g.all_gather(at::empty({n * g.size()}, at::kFloat), at::empty({n}, at::kFloat).zero_(), kind);
}
WorkPtr reduce_scatter(Group& g, int64_t n, TrafficKind kind) {
  return g.reduce_scatter(at::empty({n}, at::kFloat), at::empty({n * g.size()}, at::kFloat).zero_(), Reduce::sum, kind);
}
WorkPtr all_to_all(Group& g, int64_t n, TrafficKind kind) {
  return g.all_to_all(at::empty({n * g.size()}, at::kFloat), at::empty({n * g.size()}, at::kFloat).zero_(), kind);
}
WorkPtr broadcast(Group& g, int64_t n, TrafficKind kind) {
  return g.broadcast_(at::empty({n}, at::kFloat).zero_(), g.size() - 1, kind);
}

// Makes one call in a fresh world of m ranks and compares, on every rank, the ledger with `formula` and with the wire.
void expect_bytes(const Call& call, const std::function<Counts(int64_t n, int rank, int m)>& formula) {
  for (int m : {1, 2, 3, 4, 5})
    for (int64_t n : {0, 1, 2, 7, 1023}) {
      std::atomic<int64_t> sent = 0, received = 0;
      run_world(m, [&](std::shared_ptr<TransportGroup> world) {
        auto mail = std::make_shared<CountingTransport>(world->transport());
        auto group = world->with_transport(mail);
        auto work = call(*group, n, TrafficKind::payload);
        const Counts entered = counts(group->ledger(), TrafficKind::payload);
        EXPECT_EQ(entered, formula(n, group->rank(), m)) << "n " << n << " rank " << group->rank() << " of " << m;
        work->wait();
        EXPECT_EQ(counts(group->ledger(), TrafficKind::payload), entered) << "a count must not depend on timing";
        EXPECT_EQ((Counts{mail->sent, mail->received}), entered)
            << "n " << n << " rank " << group->rank() << " of " << m;
        EXPECT_EQ(group->ledger().sent(), entered.sent);
        EXPECT_EQ(group->ledger().received(), entered.received);
        sent += entered.sent, received += entered.received;
      });
      EXPECT_EQ(sent, received);
    }
}

TEST(Ledger, AllReduceCountsAScatterAndAGather) {
  expect_bytes(all_reduce, [](int64_t n, int rank, int m) {
    const int64_t own = chunk_bytes(n, rank, m), bytes = (4 * n - own) + (m - 1) * own;
    return Counts{bytes, bytes};
  });
}

TEST(Ledger, AllReduceSendsTwiceAllButOnePartWhereMDividesN) {
  run_world(4, [](GroupPtr group) {
    all_reduce(*group, 1000, TrafficKind::payload)->wait();
    EXPECT_EQ(group->ledger().sent(), 2 * 3 * 4000 / 4);
  });
}

TEST(Ledger, GatherScatterAndAllToAllCountOnePartAPeer) {
  for (const Call& call : {Call(all_gather), Call(reduce_scatter), Call(all_to_all)})
    expect_bytes(call, [](int64_t n, int, int m) { return Counts{(m - 1) * 4 * n, (m - 1) * 4 * n}; });
}

TEST(Ledger, BroadcastCountsTheRootsChunksAndEachRanksOwn) {
  expect_bytes(broadcast, [](int64_t n, int rank, int m) {
    if (m == 1) return Counts{};
    const int64_t own = chunk_bytes(n, rank, m);
    if (rank == m - 1) return Counts{(4 * n - own) + (m - 1) * own, 0};
    return Counts{(m - 2) * own, 4 * n};
  });
}

TEST(Ledger, KindsAreCountedApart) {
  run_world(2, [](GroupPtr group) {
    all_gather(*group, 5, TrafficKind::payload)->wait();
    all_gather(*group, 3, TrafficKind::scales)->wait();
    all_gather(*group, 1, TrafficKind::control)->wait();
    const Ledger& ledger = group->ledger();
    EXPECT_EQ(counts(ledger, TrafficKind::payload), (Counts{20, 20}));
    EXPECT_EQ(counts(ledger, TrafficKind::scales), (Counts{12, 12}));
    EXPECT_EQ(counts(ledger, TrafficKind::control), (Counts{4, 4}));
    EXPECT_EQ(ledger.sent(), 36);
    EXPECT_EQ(ledger.received(), 36);
  });
}

TEST(Ledger, SplitsAreCountedInTheirParent) {
  run_world(4, [](GroupPtr world) {
    GroupPtr pair = world->split(world->rank() / 2, 0), alone = pair->split(world->rank(), 0);
    EXPECT_EQ(counts(world->ledger(), TrafficKind::payload), Counts{});
    all_gather(*pair, 100, TrafficKind::payload)->wait();
    all_gather(*alone, 100, TrafficKind::payload)->wait();
    EXPECT_EQ(counts(world->ledger(), TrafficKind::payload), (Counts{400, 400}));
    EXPECT_EQ(&pair->ledger(), &world->ledger());
    EXPECT_EQ(&alone->ledger(), &world->ledger());
  });
}

TEST(Ledger, BarriersAndSplitsAreControl) {
  run_world(3, [](GroupPtr world) {
    world->barrier();
    EXPECT_EQ(counts(world->ledger(), TrafficKind::control), (Counts{2, 2}));
    world->split(0, 0);
    EXPECT_GT(world->ledger().sent(TrafficKind::control), 2);
    EXPECT_EQ(counts(world->ledger(), TrafficKind::payload), Counts{});
  });
}

TEST(Ledger, AGroupOverAnotherMailHasALedgerOfItsOwn) {
  run_world(2, [](std::shared_ptr<TransportGroup> world) {
    auto group = world->with_transport(world->transport());
    const int64_t control = world->ledger().sent();
    all_gather(*group, 10, TrafficKind::payload)->wait();
    EXPECT_EQ(counts(group->ledger(), TrafficKind::payload), (Counts{40, 40}));
    EXPECT_EQ(group->ledger().sent(TrafficKind::control), 0);
    EXPECT_EQ(world->ledger().sent(), control);
    EXPECT_EQ(world->ledger().sent(TrafficKind::payload), 0);
  });
}

TEST(Trace, HasTheCollectivesOfSplitsThatAreMadeLater) {
  run_world(2, [](std::shared_ptr<TransportGroup> world) {
    const auto trace = std::make_shared<Trace>(100);
    world->record(trace);
    const GroupPtr split = world->split(0, world->rank());
    const size_t before = trace->of(TraceKind::transfer).size();
    all_gather(*split, 10, TrafficKind::payload)->wait();
    EXPECT_EQ(trace->of(TraceKind::transfer).size(), before + 1);
  });
}

}  // namespace
}  // namespace thinwire::comm
