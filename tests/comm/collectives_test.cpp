#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>

#include "thinwire/base/errors.h"
#include "thinwire/comm/world.h"

namespace thinwire::comm {
namespace {

const std::vector<int64_t> kLengths = {0, 1, 2, 7, 1023, 1025, 20'011};
const std::vector<at::ScalarType> kNumbers = {at::kFloat, at::kDouble, at::kLong};
const std::vector<at::ScalarType> kAnything = {at::kFloat, at::kDouble, at::kLong, at::kByte};

uint64_t hash(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// What rank `rank` brings to collective `call`: numbers of many magnitudes, so that the order of a sum shows in its
// last bits.
at::Tensor values(at::ScalarType type, int64_t n, int rank, int call) {
  at::Tensor x = at::empty({n}, type);
  auto fill = [&]<class T>(T, double scale) {
    T* p = static_cast<T*>(x.mutable_data_ptr());
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t h = hash(hash(hash(i + 1) + rank) + call);
      p[i] = static_cast<T>((static_cast<double>(h >> 11) / (1ull << 53) - 0.4) * scale * (h % 1000));
    }
  };
  switch (type) {
    case at::kFloat:
      fill(float{}, 1);
      break;
    case at::kDouble:
      fill(double{}, 1);
      break;
    case at::kLong:
      fill(int64_t{}, 1e6);
      break;
    default:
      for (int64_t i = 0; i < n; ++i) x.mutable_data_ptr<uint8_t>()[i] = hash(hash(i + 1) + 100 * rank + call);
  }
  return x;
}

template <class T>
void plain_reduce(const std::vector<at::Tensor>& all, at::Tensor out, Reduce how) {
  for (int64_t i = 0; i < out.numel(); ++i) {
    T y = all[0].const_data_ptr<T>()[i];
    for (size_t r = 1; r < all.size(); ++r) {
      const T v = all[r].const_data_ptr<T>()[i];
      y = how == Reduce::max ? (v > y ? v : y) : y + v;
    }
    out.mutable_data_ptr<T>()[i] = how == Reduce::mean ? y / static_cast<T>(all.size()) : y;
  }
}

// The definition of a reduction: in rank order, element by element.
at::Tensor reduced(const std::vector<at::Tensor>& all, Reduce how) {
  at::Tensor out = at::empty_like(all[0]);
  switch (out.scalar_type()) {
    case at::kFloat:
      plain_reduce<float>(all, out, how);
      break;
    case at::kDouble:
      plain_reduce<double>(all, out, how);
      break;
    default:
      plain_reduce<int64_t>(all, out, how);
  }
  return out;
}

std::vector<at::Tensor> of_all_ranks(at::ScalarType type, int64_t n, int ranks, int call) {
  std::vector<at::Tensor> all;
  for (int r = 0; r < ranks; ++r) all.push_back(values(type, n, r, call));
  return all;
}

at::Tensor part(const at::Tensor& x, int k, int of) { return x.narrow(0, k * (x.numel() / of), x.numel() / of); }

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.nbytes() == b.nbytes() &&
         (a.nbytes() == 0 || !std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()));
}

std::vector<Reduce> ways(at::ScalarType type) {
  if (type == at::kLong) return {Reduce::sum, Reduce::max};
  return {Reduce::sum, Reduce::mean, Reduce::max};
}

void for_each_world(const std::function<void(Group&)>& rank_main) {
  for (int ranks : {1, 2, 3, 4, 5}) run_world(ranks, [&](GroupPtr group) { rank_main(*group); });
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return one_line(error);
  }
  return "no error";
}

TEST(Collectives, AllReduceIsTheReductionInRankOrder) {
  for_each_world([](Group& group) {
    int call = 0;
    for (auto type : kNumbers)
      for (auto how : ways(type))
        for (int64_t n : kLengths) {
          at::Tensor x = values(type, n, group.rank(), ++call);
          group.all_reduce_(x, how)->wait();
          EXPECT_TRUE(same_bits(x, reduced(of_all_ranks(type, n, group.size(), call), how)))
              << "M " << group.size() << " n " << n << " " << type << " way " << static_cast<int>(how);
        }
  });
}

TEST(Collectives, ReduceScatterGivesEachRankItsPartOfTheReduction) {
  for_each_world([](Group& group) {
    const int m = group.size();
    int call = 0;
    for (auto type : kNumbers)
      for (auto how : ways(type))
        for (int64_t n : kLengths) {
          at::Tensor in = values(type, m * n, group.rank(), ++call), out = at::empty({n}, type);
          group.reduce_scatter(out, in, how)->wait();
          EXPECT_TRUE(same_bits(out, part(reduced(of_all_ranks(type, m * n, m, call), how), group.rank(), m)))
              << "M " << m << " n " << n << " " << type;
          EXPECT_TRUE(same_bits(in, values(type, m * n, group.rank(), call)));
        }
  });
}

TEST(Collectives, AllGatherPutsTheRanksOneAfterAnother) {
  for_each_world([](Group& group) {
    const int m = group.size();
    int call = 0;
    for (auto type : kAnything)
      for (int64_t n : kLengths) {
        at::Tensor in = values(type, n, group.rank(), ++call), out = at::empty({m * n}, type);
        group.all_gather(out, in)->wait();
        for (int k = 0; k < m; ++k)
          EXPECT_TRUE(same_bits(part(out, k, m), values(type, n, k, call))) << "M " << m << " n " << n << " " << type;
      }
  });
}

TEST(Collectives, AllToAllTransposesParts) {
  for_each_world([](Group& group) {
    const int m = group.size();
    int call = 0;
    for (auto type : kAnything)
      for (int64_t n : kLengths) {
        at::Tensor in = values(type, m * n, group.rank(), ++call), out = at::empty({m * n}, type);
        group.all_to_all(out, in)->wait();
        for (int k = 0; k < m; ++k)
          EXPECT_TRUE(same_bits(part(out, k, m), part(values(type, m * n, k, call), group.rank(), m)))
              << "M " << m << " n " << n << " " << type;
      }
  });
}

TEST(Collectives, BroadcastGivesEveryRankTheRootsTensor) {
  for_each_world([](Group& group) {
    int call = 0;
    for (auto type : kAnything)
      for (int64_t n : kLengths)
        for (int root = 0; root < group.size(); ++root) {
          at::Tensor x = values(type, n, group.rank(), ++call);
          group.broadcast_(x, root)->wait();
          EXPECT_TRUE(same_bits(x, values(type, n, root, call))) << "M " << group.size() << " n " << n << " " << type;
        }
  });
}

TEST(Collectives, TheSumOfEveryChunkIsInRankOrder) {
  run_world(4, [](GroupPtr group) {
    const float brought[] = {1e8f, 1, -1e8f, 1};  // in rank order the first 1 is lost and the second is not
    for (int64_t n = 1; n < 12; ++n) {
      at::Tensor x = at::empty({n}, at::kFloat).fill_(brought[group->rank()]);
      group->all_reduce_(x, Reduce::sum)->wait();
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(x.const_data_ptr<float>()[i], 1) << "n " << n << " i " << i;
    }
  });
}

TEST(Collectives, ASecondRunGivesTheSameBits) {
  auto run = [] {
    std::vector<at::Tensor> results(4);
    run_world(4, [&](GroupPtr group) {
      at::Tensor x = values(at::kFloat, 10'007, group->rank(), 1);
      for (int i = 0; i < 10; ++i) group->all_reduce_(x, Reduce::mean)->wait(), x.mul_(1.37f);
      results[group->rank()] = x;
    });
    return results;
  };
  const auto first = run(), second = run();
  for (int r = 0; r < 4; ++r) {
    EXPECT_TRUE(same_bits(first[r], second[r]));
    EXPECT_TRUE(same_bits(first[r], first[0]));
  }
}

TEST(Collectives, ManyInFlightCanBeWaitedInAnyOrder) {
  for_each_world([](Group& group) {
    const int m = group.size(), me = group.rank(), calls = 60;
    std::vector<at::Tensor> results(calls), kept(calls);
    std::vector<WorkPtr> works;
    for (int call = 0; call < calls; ++call) {
      const int64_t n = kLengths[call % 6];
      switch (call % 5) {
        case 0:
          results[call] = values(at::kFloat, n, me, call);
          works.push_back(group.all_reduce_(results[call], Reduce::sum));
          break;
        case 1:
          results[call] = values(at::kFloat, n, me, call);
          works.push_back(group.broadcast_(results[call], call % m));
          break;
        case 2:
          results[call] = at::empty({m * n}, at::kFloat), kept[call] = values(at::kFloat, n, me, call);
          works.push_back(group.all_gather(results[call], kept[call]));
          break;
        case 3:
          results[call] = at::empty({n}, at::kFloat), kept[call] = values(at::kFloat, m * n, me, call);
          works.push_back(group.reduce_scatter(results[call], kept[call], Reduce::max));
          break;
        default:
          results[call] = at::empty({m * n}, at::kFloat), kept[call] = values(at::kFloat, m * n, me, call);
          works.push_back(group.all_to_all(results[call], kept[call]));
      }
    }
    std::vector<int> order(calls);
    for (int i = 0; i < calls; ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](int i) { return hash(i + 1000 * me); });  // each rank in an order of its own
    for (int i : order) works[i]->wait();
    for (int call = 0; call < calls; ++call) {
      const int64_t n = kLengths[call % 6];
      at::Tensor expected;
      if (call % 5 == 0) expected = reduced(of_all_ranks(at::kFloat, n, m, call), Reduce::sum);
      if (call % 5 == 1) expected = values(at::kFloat, n, call % m, call);
      if (call % 5 == 3) expected = part(reduced(of_all_ranks(at::kFloat, m * n, m, call), Reduce::max), me, m);
      if (expected.defined()) {
        EXPECT_TRUE(same_bits(results[call], expected)) << "M " << m << " call " << call;
      }
      if (call % 5 == 2 || call % 5 == 4)
        for (int k = 0; k < m; ++k) {
          const auto sent =
              call % 5 == 2 ? values(at::kFloat, n, k, call) : part(values(at::kFloat, m * n, k, call), me, m);
          EXPECT_TRUE(same_bits(part(results[call], k, m), sent)) << "M " << m << " call " << call;
        }
    }
  });
}

// The root of a broadcast receives nothing: its second leg must not overtake the second leg of the call before.
TEST(Collectives, ABroadcastRightAfterAnAllReduceEnds) {
  for (int round = 0; round < 20; ++round)
    run_world(3, [&](GroupPtr group) {
      at::Tensor x = values(at::kFloat, 50'000, group->rank(), 1), y = values(at::kFloat, 9, group->rank(), 2);
      auto first = group->all_reduce_(x, Reduce::sum), second = group->broadcast_(y, round % 3);
      second->wait(), first->wait();
      EXPECT_TRUE(same_bits(y, values(at::kFloat, 9, round % 3, 2)));
      EXPECT_TRUE(same_bits(x, reduced(of_all_ranks(at::kFloat, 50'000, 3, 1), Reduce::sum)));
    });
}

TEST(Collectives, WaitWorksTwiceAndFromAnotherThread) {
  run_world(2, [](GroupPtr group) {
    at::Tensor x = values(at::kDouble, 1000, group->rank(), 1);
    auto work = group->all_reduce_(x, Reduce::sum);
    std::thread one([&] { work->wait(); }), two([&] { work->wait(); });
    work->wait();
    work->wait();
    one.join(), two.join();
    EXPECT_TRUE(work->done());
    EXPECT_TRUE(same_bits(x, reduced(of_all_ranks(at::kDouble, 1000, 2, 1), Reduce::sum)));
  });
}

TEST(Collectives, DoneTurnsTrueWithoutAWait) {
  run_world(3, [](GroupPtr group) {
    at::Tensor x = values(at::kFloat, 100, group->rank(), 1);
    auto work = group->all_reduce_(x, Reduce::sum);
    while (!work->done()) std::this_thread::yield();
    EXPECT_TRUE(same_bits(x, reduced(of_all_ranks(at::kFloat, 100, 3, 1), Reduce::sum)));
  });
}

TEST(Collectives, WhenWaitReturnsNobodyElseHoldsTheTensors) {
  run_world(3, [](GroupPtr group) {
    for (int round = 0; round < 30; ++round) {
      at::Tensor x = values(at::kFloat, 100, group->rank(), 1), in = values(at::kFloat, 3 * 100, group->rank(), 2),
                 out = at::empty({3 * 100}, at::kFloat);
      std::vector<WorkPtr> works = {group->all_reduce_(x, Reduce::sum), group->all_to_all(out, in)};
      for (auto& work : works) work->wait();
      for (auto& tensor : {&x, &in, &out}) {
        EXPECT_EQ(tensor->use_count(), 1);
        EXPECT_EQ(tensor->storage().use_count(), 1);
      }
      group->broadcast_(x, round % 3)->wait();
      group->reduce_scatter(x, in, Reduce::max)->wait();
      group->all_gather(out, x)->wait();
      for (auto& tensor : {&x, &in, &out}) EXPECT_EQ(tensor->storage().use_count(), 1);
    }
  });
}

TEST(Collectives, TensorsOfAnyShapeKeepIt) {
  run_world(3, [](GroupPtr group) {
    at::Tensor scalar = at::empty({}, at::kDouble).fill_(group->rank() + 1), empty = at::empty({0, 5}, at::kFloat),
               cube = at::empty({2, 3, 4}, at::kLong).fill_(group->rank());
    group->all_reduce_(scalar, Reduce::sum)->wait();
    group->all_reduce_(empty, Reduce::sum)->wait();
    group->all_reduce_(cube, Reduce::sum)->wait();
    group->broadcast_(cube, 1)->wait();
    EXPECT_EQ(scalar.item<double>(), 6);
    EXPECT_EQ(cube.sizes(), at::IntArrayRef({2, 3, 4}));
    EXPECT_EQ(cube.sum().item<int64_t>(), 3 * 24);
  });
}

TEST(Collectives, GatherAndReduceScatterWorkOnTheirOwnPartInPlace) {
  run_world(3, [](GroupPtr group) {
    const int me = group->rank();
    at::Tensor all = at::empty({3 * 500}, at::kFloat);
    part(all, me, 3).copy_(values(at::kFloat, 500, me, 1));
    group->all_gather(all, part(all, me, 3))->wait();
    for (int k = 0; k < 3; ++k) EXPECT_TRUE(same_bits(part(all, k, 3), values(at::kFloat, 500, k, 1)));

    at::Tensor in = values(at::kFloat, 3 * 500, me, 2);
    group->reduce_scatter(part(in, me, 3), in, Reduce::sum)->wait();
    const at::Tensor sum = reduced(of_all_ranks(at::kFloat, 3 * 500, 3, 2), Reduce::sum);
    EXPECT_TRUE(same_bits(part(in, me, 3), part(sum, me, 3)));
  });
}

TEST(Collectives, MemoryThatIsReadAndWrittenAtOnceIsAnError) {
  run_world(2, [](GroupPtr group) {
    at::Tensor x = at::empty({10}, at::kFloat);
    EXPECT_EQ(error_of([&] { group->all_to_all(x, x); }), "[comm] all_to_all cannot work in place");
    EXPECT_EQ(error_of([&] { group->all_to_all(x.narrow(0, 0, 6), x.narrow(0, 4, 6)); }),
              "[comm] all_to_all cannot work in place");
    EXPECT_EQ(error_of([&] { group->all_gather(x, x.narrow(0, 3, 5)); }),
              "[comm] all_gather works in place only where `in` is this rank's part of `out`");
  });
}

TEST(Collectives, WrongCallsSayWhatWasWantedAndWhatCame) {
  run_world(2, [](GroupPtr group) {
    auto floats = [](int64_t n) { return at::empty({n}, at::kFloat); };
    auto bytes = [](int64_t n) { return at::empty({n}, at::kByte); };
    Group& g = *group;
    EXPECT_EQ(error_of([&] { g.all_reduce_(bytes(4), Reduce::sum); }),
              "[comm] only fp32, fp64 and int64 can be reduced, got Byte");
    EXPECT_EQ(error_of([&] { g.all_reduce_(at::empty({4}, at::kLong), Reduce::mean); }),
              "[comm] the mean of whole numbers is not one; sum them");
    EXPECT_EQ(error_of([&] {
                g.all_reduce_(at::empty({4, 4}, at::kFloat).t(), Reduce::sum);
              }),
              "[comm] collectives work on contiguous CPU tensors");
    EXPECT_EQ(error_of([&] { g.reduce_scatter(floats(4), floats(9), Reduce::sum); }),
              "[comm] reduce_scatter needs 2 times as many elements in as out, of one type; got 9 Float and 4 Float");
    EXPECT_EQ(error_of([&] { g.reduce_scatter(bytes(4), floats(8), Reduce::sum); }),
              "[comm] reduce_scatter needs 2 times as many elements in as out, of one type; got 8 Float and 4 Byte");
    EXPECT_EQ(error_of([&] { g.all_gather(floats(9), floats(4)); }),
              "[comm] all_gather needs 2 times as many elements out as in, of one type; got 4 Float and 9 Float");
    EXPECT_EQ(
        error_of([&] { g.all_to_all(floats(5), floats(5)); }),
        "[comm] all_to_all needs as many elements out as in, of one type, a multiple of 2; got 5 Float and 5 Float");
    EXPECT_EQ(error_of([&] { g.broadcast_(floats(5), 2); }), "[comm] there is no root 2 among 2");
    EXPECT_EQ(error_of([&] { g.broadcast_(floats(5), -1); }), "[comm] there is no root -1 among 2");
    at::Tensor x = floats(3).fill_(1);
    g.all_reduce_(x, Reduce::sum)->wait();  // a refused call leaves the group as it was
    EXPECT_EQ(x.sum().item<float>(), 6);
  });
}

TEST(Split, GroupsByColorAndOrdersByKeyThenRank) {
  run_world(5, [](GroupPtr world) {
    const int me = world->rank();
    GroupPtr half = world->split(me % 2, -me);  // {4, 2, 0} and {3, 1}
    EXPECT_EQ(half->size(), me % 2 ? 2 : 3);
    EXPECT_EQ(half->rank(), me % 2 ? (3 - me) / 2 : (4 - me) / 2);
    at::Tensor mine = at::empty({1}, at::kLong).fill_(me), all = at::empty({half->size()}, at::kLong);
    half->all_gather(all, mine)->wait();
    for (int k = 0; k < half->size(); ++k) EXPECT_EQ(all[k].item<int64_t>(), me % 2 ? 3 - 2 * k : 4 - 2 * k);

    GroupPtr same_key = world->split(7, 1);
    EXPECT_EQ(same_key->rank(), me);
    EXPECT_EQ(same_key->size(), 5);
  });
}

TEST(Split, AGroupOfOneAnswersAtOnce) {
  run_world(3, [](GroupPtr world) {
    GroupPtr alone = world->split(world->rank(), 0);
    EXPECT_EQ(alone->size(), 1);
    EXPECT_EQ(alone->rank(), 0);
    at::Tensor x = values(at::kFloat, 9, world->rank(), 1), y = at::empty_like(x);
    const at::Tensor before = x.clone();
    for (auto how : {Reduce::sum, Reduce::mean, Reduce::max}) alone->all_reduce_(x, how)->wait();
    alone->broadcast_(x, 0)->wait();
    alone->all_gather(y, x)->wait();
    alone->all_to_all(x, y)->wait();
    alone->reduce_scatter(y, x, Reduce::mean)->wait();
    alone->barrier();
    EXPECT_TRUE(same_bits(x, before));
    EXPECT_TRUE(same_bits(y, before));
    EXPECT_EQ(alone->split(3, 3)->size(), 1);
  });
}

TEST(Split, NestedSplitsTalkApartFromEachOther) {
  run_world(4, [](GroupPtr world) {
    const int me = world->rank();
    GroupPtr row = world->split(me / 2, me), column = world->split(me % 2, me), back = world->split(0, -me);
    GroupPtr alone = row->split(me, 0), pair = back->split(me / 2, me);
    std::vector<GroupPtr> groups = {world, row, column, back, alone, pair};
    std::vector<int64_t> expected = {0 + 1 + 2 + 3, me / 2 ? 5 : 1, me % 2 ? 4 : 2, 6, me, me / 2 ? 5 : 1};
    std::vector<at::Tensor> sums;
    std::vector<WorkPtr> works;
    for (int round = 0; round < 20; ++round)
      for (auto& group : groups) {
        sums.push_back(at::empty({64}, at::kLong).fill_(me + 100 * round));
        works.push_back(group->all_reduce_(sums.back(), Reduce::sum));
      }
    for (size_t i = works.size(); i-- > 0;) {
      works[i]->wait();
      const auto g = i % groups.size(), round = i / groups.size();
      EXPECT_EQ(sums[i][63].item<int64_t>(), expected[g] + 100 * static_cast<int64_t>(round) * groups[g]->size());
    }
  });
}

TEST(Split, AChildOutlivesTheHandleOfItsParent) {
  run_world(4, [](GroupPtr world) {
    GroupPtr child = world->split(0, 0)->split(world->rank() / 2, 0);
    at::Tensor x = at::empty({3}, at::kFloat).fill_(1);
    child->all_reduce_(x, Reduce::sum)->wait();
    EXPECT_EQ(x.sum().item<float>(), 6);
  });
}

TEST(Barrier, NobodyLeavesBeforeTheLastHasCome) {
  std::atomic<int> came = 0;
  run_world(4, [&](GroupPtr group) {
    for (int round = 1; round <= 20; ++round) {
      ++came;
      group->barrier();
      EXPECT_GE(came, 4 * round);
      group->barrier();
    }
  });
}

}  // namespace
}  // namespace thinwire::comm
