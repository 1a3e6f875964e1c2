#include "thinwire/compress/compressed_all_reduce.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "thinwire/base/errors.h"
#include "thinwire/base/random.h"
#include "thinwire/comm/errors.h"
#include "thinwire/comm/world.h"
#include "thinwire/compress/rms_mean.h"

namespace thinwire::compress {
namespace {

constexpr const char* kCodecs[] = {"none", "one_bit", "int8", "int4", "int2", "bf16", "half", "topk:0.1"};

// One value a rank, collected under a lock.
template <class T>
class PerRank {
 public:
  void set(int rank, T value) {
    std::lock_guard lock(mutex_);
    values_[rank] = std::move(value);
  }
  const T& operator[](int rank) const { return values_.at(rank); }

 private:
  std::mutex mutex_;
  std::map<int, T> values_;
};

at::Tensor input(int rank, int64_t n) { return at::empty({n}, at::kFloat).normal_(0, 1, generator(3, "in", rank)); }

at::Tensor known_input(int rank) {
  return rank == 0 ? at::tensor({.5f, -1.f, .25f, 0.f, -.125f}) : at::tensor({1.f, .5f, -.25f, 0.f, 2.f});
}

// Known answers of the rule: two ranks, five numbers, two calls with the same input.
TEST(CompressedAllReduce, GivesTheKnownAnswersOfBlockMode) {
  comm::run_world(2, [](std::shared_ptr<comm::TransportGroup> group) {
    CompressedAllReduce mean(group, make_codec("one_bit"));
    Errors errors = mean.errors(5);
    at::Tensor x = known_input(group->rank());
    mean.start(x, errors)->wait();
    EXPECT_TRUE(at::equal(x, at::tensor({.3375f, .3375f, -.3375f, .3375f, .3375f}))) << x;
    const float scale = group->rank() == 0 ? .375f : .75f;
    EXPECT_TRUE(
        at::equal(errors.worker.error,
                  known_input(group->rank()) - scale * (group->rank() == 0 ? at::tensor({1.f, -1.f, 1.f, 1.f, -1.f})
                                                                           : at::tensor({1.f, 1.f, -1.f, 1.f, 1.f}))));
    x = known_input(group->rank());
    mean.start(x, errors)->wait();
    EXPECT_TRUE(at::allclose(x, at::tensor({.7175f, .7175f, .7175f, -.7175f, .7175f}), 1e-6)) << x;
  });
}

TEST(RmsMean, GivesTheKnownAnswersOfDeepSpeedMode) {
  comm::run_world(2, [](std::shared_ptr<comm::TransportGroup> group) {
    RmsMean mean(group, {{0, 5}}, false);
    at::Tensor x = known_input(group->rank());
    mean.mean_(x);
    EXPECT_NEAR(mean.worker_scale, group->rank() == 0 ? .288110764 : .576221529, 1e-8);
    EXPECT_NEAR(mean.server_scale, group->rank() == 0 ? .352862181 : .432166146, 5e-8);
    EXPECT_TRUE(at::allclose(x, .352862181f * at::tensor({1.f, 1.f, -1.f, 1.f, 1.f}), 1e-6)) << x;
    State state;
    mean.put(state, "");
    if (group->rank() == 0) {
      EXPECT_TRUE(at::allclose(state.at("worker_error").value.narrow(0, 0, 5),
                               at::tensor({.211889236f, -.711889236f, -.038110764f, -.288110764f, .163110764f}), 1e-6));
    }
    x = known_input(group->rank());
    mean.mean_(x);
    EXPECT_NEAR(mean.worker_scale, group->rank() == 0 ? .529138112 : 1.058276224, 1e-7);
    EXPECT_TRUE(at::allclose(x, .720580349f * at::tensor({1.f, 1.f, 1.f, -1.f, 1.f}), 1e-6)) << x;
  });
}

// The running mean of what arrives comes ever closer to the mean of what is sent.
TEST(CompressedAllReduce, TheRunningMeanOfAConstantInputHasTheKnownErrors) {
  auto errors_of = [](bool block) {
    std::map<int, double> found;
    comm::run_world(4, [&](std::shared_ptr<comm::TransportGroup> group) {
      auto known = [](int i) {
        at::Tensor x = at::empty({256}, at::kFloat);
        for (int j = 0; j < 256; ++j)
          x.mutable_data_ptr<float>()[j] = static_cast<float>(std::sin(.37 * j + i) + .5 * std::cos(1.1 * j * (i + 1)));
        return x;
      };
      at::Tensor truth = at::zeros({256}, at::kDouble), sum = at::zeros({256}, at::kDouble);
      for (int i = 0; i < 4; ++i) truth += known(i).to(at::kDouble) / 4;
      CompressedAllReduce mean(group, make_codec("one_bit"));
      Errors errors = mean.errors(256);
      RmsMean rms(group, {{0, 100}, {100, 156}}, false);
      for (int t = 1; t <= 1000; ++t) {
        at::Tensor x = known(group->rank());
        if (block)
          mean.start(x, errors)->wait();
        else
          rms.mean_(x);
        sum += x.to(at::kDouble);
        if (group->rank() == 0 && (t == 1 || t == 10 || t == 100 || t == 1000))
          found[t] = ((sum / t - truth).norm() / truth.norm()).item<double>();
      }
    });
    return found;
  };
  auto block = errors_of(true);
  EXPECT_NEAR(block[1], .758, .0005);
  EXPECT_NEAR(block[10], .246, .0005);
  EXPECT_NEAR(block[100], .055, .0005);
  EXPECT_NEAR(block[1000], .0095, .0003);
  auto rms = errors_of(false);
  EXPECT_NEAR(rms[1], .741, .0005);
  EXPECT_NEAR(rms[10], .179, .0005);
  EXPECT_NEAR(rms[100], .020, .0005);
  EXPECT_NEAR(rms[1000], .0021, .0001);
}

TEST(CompressedAllReduce, GivesAllRanksTheSameBitsForAnyLengthAndAnyNumberOfRanks) {
  for (int ranks : {1, 2, 3, 5})
    for (int64_t n : {0, 1, 2, 7, 1023, 1025, 4100})
      for (const char* codec : kCodecs) {
        PerRank<at::Tensor> results;
        comm::run_world(ranks, [&](std::shared_ptr<comm::TransportGroup> group) {
          CompressedAllReduce mean(group, make_codec(codec));
          Errors errors = mean.errors(n);
          at::Tensor x;
          for (int again = 0; again < 3; ++again) {
            x = input(group->rank(), n);
            mean.start(x, errors)->wait();
          }
          results.set(group->rank(), x);
        });
        for (int r = 1; r < ranks; ++r)
          EXPECT_TRUE(at::equal(results[0], results[r])) << codec << " " << ranks << " ranks, " << n << " numbers";
        if (ranks == 1) {
          EXPECT_TRUE(at::equal(results[0], input(0, n))) << "alone nothing is compressed";
        }
      }
}

TEST(CompressedAllReduce, WithoutACodecIsTheMean) {
  comm::run_world(3, [](std::shared_ptr<comm::TransportGroup> group) {
    CompressedAllReduce mean(group, make_codec("none"));
    Errors errors = mean.errors(5000);
    at::Tensor x = input(group->rank(), 5000), wanted = x.clone();
    mean.start(x, errors)->wait();
    group->all_reduce_(wanted, comm::Reduce::mean, comm::TrafficKind::payload)->wait();
    EXPECT_TRUE(at::equal(x, wanted));
  });
}

TEST(CompressedAllReduce, SendsTheBytesItSays) {
  for (const char* codec : kCodecs)
    for (int64_t n : {1, 1000, 50'000}) {
      comm::run_world(3, [&](std::shared_ptr<comm::TransportGroup> group) {
        CompressedAllReduce mean(group, make_codec(codec));
        Errors errors = mean.errors(n);
        at::Tensor x = input(group->rank(), n);
        const int64_t before = group->ledger().sent();
        mean.start(x, errors)->wait();
        EXPECT_EQ(group->ledger().sent() - before, mean.bytes(n)) << codec << " " << n;
      });
    }
}

TEST(CompressedAllReduce, CanHaveSeveralUnderWay) {
  comm::run_world(3, [](std::shared_ptr<comm::TransportGroup> group) {
    CompressedAllReduce mean(group, make_codec("one_bit"));
    std::vector<at::Tensor> together, apart;
    std::vector<Errors> errors, again;
    for (int64_t n : {3000, 5, 3000, 20'000}) {
      together.push_back(input(group->rank(), n)), apart.push_back(together.back().clone());
      errors.push_back(mean.errors(n)), again.push_back(mean.errors(n));
    }
    std::vector<comm::WorkPtr> works;
    for (size_t i = 0; i < together.size(); ++i) works.push_back(mean.start(together[i], errors[i]));
    for (auto& work : works) work->wait();
    for (size_t i = 0; i < apart.size(); ++i) {
      mean.start(apart[i], again[i])->wait();
      EXPECT_TRUE(at::equal(together[i], apart[i])) << i;
    }
  });
}

TEST(CompressedAllReduce, GoesOnFromSavedErrorsAsIfNothingHadHappened) {
  comm::run_world(2, [](std::shared_ptr<comm::TransportGroup> group) {
    CompressedAllReduce mean(group, make_codec("int2"));
    Errors errors = mean.errors(3000);
    at::Tensor x = input(group->rank(), 3000);
    mean.start(x, errors)->wait();
    State saved;
    errors.put(saved, "e.");
    for (auto& [name, entry] : saved) entry.value = entry.value.clone();
    at::Tensor straight = input(group->rank(), 3000), resumed = straight.clone();
    mean.start(straight, errors)->wait();
    Errors loaded = mean.errors(3000);
    loaded.get(saved, "e.");
    mean.start(resumed, loaded)->wait();
    EXPECT_TRUE(at::equal(straight, resumed));
  });
}

// What arrived plus what all owe is what was sent; folding moves debts from servers to workers and loses none.
TEST(CompressedAllReduce, FoldingKeepsTheSumOfWhatAllRanksOwe) {
  for (int64_t n : {5, 3000, 10'000})
    comm::run_world(3, [n](std::shared_ptr<comm::TransportGroup> group) {
      CompressedAllReduce mean(group, make_codec("one_bit"));
      Errors errors = mean.errors(n);
      const at::Tensor sent = input(group->rank(), n);
      at::Tensor arrived = sent.clone();
      mean.start(arrived, errors)->wait();
      mean.fold(errors);
      EXPECT_EQ(errors.server.error.abs().sum().item<double>(), 0);
      at::Tensor all = sent.clone(), owed = errors.worker.error.clone();
      group->all_reduce_(all, comm::Reduce::mean, comm::TrafficKind::control)->wait();
      group->all_reduce_(owed, comm::Reduce::mean, comm::TrafficKind::control)->wait();
      EXPECT_TRUE(at::allclose(arrived + owed, all, 1e-5, 1e-5)) << n;
      EXPECT_FALSE(at::allclose(arrived, all, 1e-2, 1e-2)) << n;
    });
}

TEST(CompressedAllReduce, NamesThePlaceOfANumberThatIsNotFinite) {
  try {
    comm::run_world(2, [](std::shared_ptr<comm::TransportGroup> group) {
      CompressedAllReduce mean(group, make_codec("one_bit"), [](int64_t i) { return fmt::format("wte[{}]", i); });
      Errors errors = mean.errors(5000);
      at::Tensor x = input(group->rank(), 5000);
      if (group->rank() == 1) x[4097] = NAN;
      mean.start(x, errors)->wait();
    });
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_NE(one_line(error).find("[compress.one_bit] wte[4097] is nan"), std::string::npos) << error.what();
  }
}

TEST(CompressedAllReduce, ThrowsWhenAPeerIsLostInsteadOfHanging) {
  EXPECT_THROW(comm::run_world(3,
                               [](std::shared_ptr<comm::TransportGroup> group) {
                                 CompressedAllReduce mean(group, make_codec("int8"));
                                 Errors errors = mean.errors(5000);
                                 at::Tensor x = input(group->rank(), 5000);
                                 if (group->rank() == 2) throw BadInput("enough");
                                 EXPECT_THROW(mean.start(x, errors)->wait(), comm::PeerLost);
                               }),
               BadInput);
}

}  // namespace
}  // namespace thinwire::compress
