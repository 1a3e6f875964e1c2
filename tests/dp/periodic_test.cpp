// Periodic averaging against its definition, its identities and what it promises about timing, saving and options.
#include "thinwire/dp/periodic.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "quadratic.h"
#include "thinwire/base/errors.h"

namespace thinwire::dp {
namespace {

StrategyOptions named(const std::string& name, int64_t period = 5) {
  auto options = preset(name);
  options.periodic.period = period;
  return options;
}

std::vector<std::string> periodic_names() {
  std::vector<std::string> names;
  for (const auto& name : strategy_names())
    if (family_of(name) == Family::periodic) names.push_back(name);
  return names;
}

// Section by section the rule of periodic.h, in double precision, with no thought for speed or memory.
std::vector<at::Tensor> by_definition(const Trial& trial) {
  const PeriodicOptions& o = trial.options.periodic;
  const int m = trial.replicas;
  const auto layout = two_piece_layout();
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<at::Tensor> x(m), start(m), target(m), p(m);
  at::Tensor z = on_pieces(layout, 7).to(at::kDouble), v = at::zeros_like(z), travelling, scale = at::zeros_like(z);
  for (const auto& piece : layout.pieces) scale.narrow(0, piece.at, piece.numel).fill_(piece.group == 0 ? 1.0 : 0.5);
  for (int i = 0; i < m; ++i) {
    x[i] = start[i] = z.clone();
    target[i] = on_pieces(layout, trial.same_data ? 100 : 100 + i).to(at::kDouble);
  }
  const double keep = o.keep.per_replica ? 1.0 / m : o.keep.share;
  double gamma_prev = 0, last = 0, largest = 0;
  int64_t rounds = 0;
  auto mean = [&](const std::vector<at::Tensor>& all) {
    at::Tensor sum = at::zeros_like(z);
    for (const auto& t : all) sum += t;
    return sum / m;
  };
  auto update = [&](const at::Tensor& a_raw, double gamma, bool sync) {
    double lambda = 1;
    if (!sync && o.penalty == "floor") lambda = o.outer_lr / (1 - o.momentum);
    if (!sync && o.penalty == "gap" && largest > 0) lambda = 1 + last / largest;
    const double ratio = o.lr_normalised && gamma_prev > 0 ? gamma / gamma_prev : 1;
    const at::Tensor a = a_raw / lambda;
    v = o.momentum * ratio * v + a;
    if (o.clip < inf) {
      const at::Tensor bound = scale * (o.clip * static_cast<double>(o.period) * gamma);
      v = at::minimum(at::maximum(v, -bound), bound);
    }
    const at::Tensor move = o.outer == "nesterov" ? o.outer_lr * (o.momentum * v + a) : o.outer_lr * v;
    z = z + move;
    last = move.norm().item<double>();
    largest = std::max(largest, last);
    gamma_prev = gamma;
  };
  auto close = [&](double gamma) {
    ++rounds;
    const bool sync = o.delay == 1 && rounds <= o.sync_rounds, late = o.delay == 1 && !sync;
    for (int i = 0; i < m; ++i) p[i] = x[i] - start[i];
    if (late) {
      if (travelling.defined()) update(travelling, gamma, false);
      travelling = mean(p);
    } else if (o.outer == "average") {
      z = mean(x);
    } else {
      update(mean(p), gamma, sync);
    }
    for (int i = 0; i < m; ++i) x[i] = start[i] = z + (late ? keep : 0) * p[i];
  };
  for (int64_t t = 1; t <= trial.steps; ++t) {
    for (int i = 0; i < m; ++i) x[i] = x[i] - trial.lr(t) * scale * (x[i] - target[i]);
    if (t % o.period == 0) close(trial.lr(t));
  }
  if (trial.finish) {
    if (trial.steps % o.period != 0) close(trial.lr(trial.steps));
    if (travelling.defined()) update(travelling, trial.lr(trial.steps), false);
    for (int i = 0; i < m; ++i) x[i] = z;
  }
  for (auto& t : x) t = t.to(at::kFloat);
  return x;
}

TEST(Periodic, EveryNameFollowsTheDefinition) {
  for (const auto& name : periodic_names())
    for (bool finish : {false, true})
      for (int64_t steps : {4, 33, 40}) {
        const Trial trial{.options = named(name), .steps = steps, .finish = finish};
        const auto got = trial.run(), wanted = by_definition(trial);
        for (int i = 0; i < trial.replicas; ++i)
          EXPECT_LT(distance(got[i], wanted[i]), 2e-6) << name << " " << steps << " finish " << finish << " rank " << i;
      }
}

TEST(Periodic, EveryOptionFollowsTheDefinition) {
  for (const std::string penalty : {"none", "gap", "floor"})
    for (double clip : {0.05, 1.0, std::numeric_limits<double>::infinity()})
      for (double keep : {0.0, 0.4})
        for (int64_t sync_rounds : {0, 1, 3})
          for (bool normalised : {false, true}) {
            Trial trial{.options = named("co2", 3), .replicas = 2, .steps = 20, .finish = true};
            auto& o = trial.options.periodic;
            o.penalty = penalty, o.clip = clip, o.keep = {.share = keep}, o.sync_rounds = sync_rounds;
            o.lr_normalised = normalised, o.momentum = 0.6, o.outer_lr = 0.8;
            EXPECT_LT(distance(trial.run()[1], by_definition(trial)[1]), 2e-6)
                << penalty << " clip " << clip << " keep " << keep << " sync " << sync_rounds;
          }
}

TEST(Periodic, PeriodOneAverageWithSgdIsGradientAllReduce) {
  const auto averaged = Trial{.options = named("local_sgd", 1), .steps = 50}.run();
  const auto reduced = Trial{.options = preset("all_reduce"), .steps = 50}.run();
  for (int i = 0; i < 4; ++i) EXPECT_LT(distance(averaged[i], reduced[i]), 3e-7);
}

TEST(Periodic, SlowMoWithoutMomentumIsLocalSgd) {
  auto slowmo = named("slowmo");
  slowmo.periodic.momentum = 0;
  const auto a = Trial{.options = slowmo, .steps = 50}.run(),
             b = Trial{.options = named("local_sgd"), .steps = 50}.run();
  for (int i = 0; i < 4; ++i) EXPECT_LT(distance(a[i], b[i]), 1e-7);
}

TEST(Periodic, Co2WithoutDelayPenaltyAndClipIsSlowMoBitForBit) {
  auto co2 = named("co2"), slowmo = named("slowmo");
  co2.periodic.delay = 0, co2.periodic.penalty = "none";
  co2.periodic.clip = std::numeric_limits<double>::infinity();
  slowmo.periodic.momentum = co2.periodic.momentum;
  const auto a = Trial{.options = co2, .rule = adamw}.run(), b = Trial{.options = slowmo, .rule = adamw}.run();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(a[i].equal(b[i]));
}

TEST(Periodic, CocodWithIdenticalDataIsOneReplicaTrainedAlone) {
  for (auto rule :
       {+[](const optim::Layout& l) { return plain_sgd(l, 0.9); }, +[](const optim::Layout& l) { return adamw(l); }}) {
    const Trial together{.options = named("cocod"), .steps = 50, .finish = true, .same_data = true, .rule = rule};
    const Trial alone{.options = preset("all_reduce"), .replicas = 1, .steps = 50, .same_data = true, .rule = rule};
    EXPECT_LT(distance(together.run()[2], alone.run()[0]), 2e-7);
  }
}

TEST(Periodic, OneReplicaThatAveragesIsTheInnerOptimizerUntouched) {
  const auto alone = Trial{.options = preset("all_reduce"), .replicas = 1, .rule = adamw}.run();
  for (const std::string name : {"local_sgd", "cocod"})
    for (bool finish : {false, true}) {
      const Trial trial{.options = named(name), .replicas = 1, .finish = finish, .rule = adamw};
      EXPECT_TRUE(trial.run()[0].equal(alone[0])) << name;
    }
}

TEST(Periodic, ReplicasEndOnTheSameBitsAndConsensusIsTheSameEverywhere) {
  for (const auto& name : periodic_names()) {
    std::vector<at::Tensor> z(4);
    comm::run_world(4, [&](comm::GroupPtr group) {
      Replica replica(named(name), group, adamw(two_piece_layout()), 100 + group->rank());
      for (int64_t t = 1; t <= 18; ++t) replica.step(t, 0.05);
      z[group->rank()] = replica.strategy->consensus(replica.x).clone();
    });
    for (int i = 1; i < 4; ++i) EXPECT_TRUE(z[i].equal(z[0])) << name;
    const auto ends = Trial{.options = named(name), .finish = true, .rule = adamw}.run();
    for (int i = 1; i < 4; ++i) EXPECT_TRUE(ends[i].equal(ends[0])) << name;
  }
}

TEST(Periodic, TheFirstLateBoundaryHasNothingToApply) {
  comm::run_world(2, [](comm::GroupPtr group) {
    auto options = named("co2", 2);
    options.periodic.sync_rounds = 0;
    Replica replica(options, group, plain_sgd(two_piece_layout()), 100 + group->rank());
    const at::Tensor begin = replica.x.clone();
    replica.step(1, 0.1), replica.step(2, 0.1);
    EXPECT_TRUE(replica.x.equal(begin)) << "w is 0: the round's progress is all under way";
    EXPECT_TRUE(replica.strategy->consensus(replica.x).equal(begin));
  });
}

TEST(Periodic, ClippedMomentumMovesNoCoordinateFurtherThanPhiLearningRatesAStep) {
  comm::run_world(2, [](comm::GroupPtr group) {
    auto options = named("co2", 4);
    options.periodic.clip = 0.02;
    Replica replica(options, group, plain_sgd(two_piece_layout()), 100 + group->rank());
    at::Tensor before = replica.strategy->consensus(replica.x).clone();
    for (int64_t t = 1; t <= 40; ++t) {
      replica.step(t, 0.1);
      const at::Tensor now = replica.strategy->consensus(replica.x);
      EXPECT_LE((now - before).abs().max().item<double>(), 0.02 * 4 * 0.1 * (1 + 1e-4));
      before = now.clone();
    }
  });
}

TEST(Periodic, AStateTakenAnywhereGoesOnBitForBit) {
  for (const auto& name : periodic_names())
    for (int64_t cut : {1, 5, 7, 10, 12}) {
      std::vector<at::Tensor> straight(3), resumed(3);
      comm::run_world(3, [&](comm::GroupPtr group) {
        const auto seed = 100 + group->rank();
        Replica whole(named(name), group, adamw(two_piece_layout()), seed);
        State saved;
        at::Tensor x;
        for (int64_t t = 1; t <= 23; ++t) {
          whole.step(t, 0.1 / static_cast<double>(t));
          if (t != cut) continue;
          for (const auto& [key, entry] : whole.strategy->state()) saved[key] = {entry.value.clone(), entry.scope};
          x = whole.x.clone();
        }
        whole.strategy->finish(whole.x);
        straight[group->rank()] = whole.x;

        Replica again(named(name), group, adamw(two_piece_layout()), seed);
        again.x.copy_(x);
        again.strategy->load(saved);
        for (int64_t t = cut + 1; t <= 23; ++t) again.step(t, 0.1 / static_cast<double>(t));
        again.strategy->finish(again.x);
        resumed[group->rank()] = again.x;
      });
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(resumed[i].equal(straight[i])) << name << " cut at " << cut;
    }
}

TEST(Periodic, WhatIsSharedByAllReplicasIsSavedAsShared) {
  comm::run_world(2, [](comm::GroupPtr group) {
    Replica replica(named("eager_diloco", 2), group, adamw(two_piece_layout()), 100 + group->rank());
    for (int64_t t = 1; t <= 8; ++t) replica.step(t, 0.01);
    const State state = replica.strategy->state();
    for (const char* name : {"z", "v", "flight"}) EXPECT_EQ(state.at(name).scope, Scope::all_equal) << name;
    for (const char* name : {"start", "rule.m", "rule.v"}) EXPECT_EQ(state.at(name).scope, Scope::per_replica) << name;
  });
}

TEST(Periodic, ALateAverageTravelsWhileTheNextRoundComputes) {
  // Rank 1 closes its round only after rank 0 has closed it and computed on: impossible if closing it waited.
  std::atomic<bool> went_on = false;
  comm::run_world(2,
                  [&](comm::GroupPtr group) {
                    auto options = named("co2", 2);
                    options.periodic.sync_rounds = 0;
                    Replica replica(options, group, plain_sgd(two_piece_layout()), 100 + group->rank());
                    replica.step(1, 0.1);
                    if (group->rank() == 1)
                      while (!went_on) std::this_thread::yield();
                    replica.step(2, 0.1);
                    replica.step(3, 0.1);
                    if (group->rank() == 0) went_on = true;
                    replica.step(4, 0.1);
                    replica.strategy->finish(replica.x);
                  },
                  {.timeout_s = 20});
}

TEST(Periodic, TrainingMayGoOnAfterFinish) {
  comm::run_world(2, [](comm::GroupPtr group) {
    Replica replica(named("eager_diloco", 3), group, plain_sgd(two_piece_layout()), 100 + group->rank());
    for (int64_t t = 1; t <= 10; ++t) replica.step(t, 0.1);
    replica.strategy->finish(replica.x);
    const at::Tensor agreed = replica.x.clone();
    replica.strategy->finish(replica.x);
    EXPECT_TRUE(replica.x.equal(agreed)) << "nothing is left to land";
    for (int64_t t = 11; t <= 13; ++t) replica.step(t, 0.1);
    EXPECT_FALSE(replica.strategy->state().at("in_flight").value.item<int64_t>() == 0);
    EXPECT_TRUE(replica.strategy->consensus(replica.x).equal(agreed))
        << "the first boundary after it has nothing to apply";
  });
}

TEST(Periodic, ASkippedUpdateStillTakesPartInTheRound) {
  comm::run_world(2, [](comm::GroupPtr group) {
    Replica replica(named("local_sgd", 2), group, plain_sgd(two_piece_layout()), 100 + group->rank());
    const double lr[] = {0.1, 0.1};
    replica.step(1, 0.1);
    const at::Tensor own = replica.x.clone();
    replica.strategy->step({.x = replica.x, .next = replica.x, .grad = replica.grad, .lr = lr, .t = 2, .skip = true});
    EXPECT_FALSE(replica.x.equal(own)) << "the average came";
  });
}

TEST(Periodic, OptionsThatContradictEachOtherAreRefused) {
  auto refused = [](PeriodicOptions options) -> std::string {
    try {
      comm::run_world(1, [&](comm::GroupPtr group) {
        const auto layout = two_piece_layout();
        Periodic(layout, {.sync = group}, plain_sgd(layout), options, on_pieces(layout, 1));
      });
    } catch (const std::exception& error) {
      return one_line(error);
    }
    return "";
  };
  EXPECT_EQ(refused({.period = 0}), "periodic.period must be at least 1, got 0");
  EXPECT_EQ(refused({.outer = "heavy_ball", .momentum = 1.0}),
            "periodic.momentum must be at least 0 and below 1, got 1");
  EXPECT_EQ(refused({.keep = {.share = 0.5}}).substr(0, 43), "[dp.periodic] keep = 0.5 needs delay = 1: w");
  EXPECT_EQ(refused({.momentum = 0.5}), "[dp.periodic] outer = average takes no momentum, outer_lr, penalty or clip");
}

TEST(Periodic, AFreshAverageIsNotPenalised) {
  Trial trial;
  trial.options = preset("slowmo");
  trial.options.periodic.period = 4;
  const auto plain = trial.run();
  for (const std::string penalty : {"gap", "floor"}) {
    trial.options.periodic.penalty = penalty;
    EXPECT_TRUE(at::equal(trial.run()[0], plain[0])) << penalty;
  }
}

}  // namespace
}  // namespace thinwire::dp
