// Averaging by slices against its definition, its identities and known answers, and what it promises about saving,
// options and bytes.
#include "thinwire/dp/slices.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "quadratic.h"
#include "thinwire/base/errors.h"

namespace thinwire::dp {
namespace {

// Seven blocks, two of them with padding.
optim::Layout several_blocks() {
  return optim::make_layout({{at::zeros({60, 50}), at::zeros({70})}, {at::zeros({40, 100}), at::zeros({9})}});
}

struct Learner {
  optim::Layout layout = several_blocks();
  at::Tensor x, grad, target;
  Slices strategy;

  Learner(const SlicesOptions& options, const comm::GroupPtr& group, int64_t planned, optim::RulePtr rule,
          StalenessProbePtr probe = {})
      : x(on_pieces(layout, 7)),
        grad(at::zeros_like(x)),
        target(on_pieces(layout, 100 + group->rank())),
        strategy(layout, {.sync = group, .probe = std::move(probe)}, std::move(rule), options, x, planned) {}

  static double lr(int64_t t) { return 0.1 / (1 + 0.05 * static_cast<double>(t)); }
  void step(int64_t t) {
    grad.copy_(x).sub_(target);
    strategy.step({.x = x, .next = x, .grad = grad, .lr = std::array{lr(t), lr(t)}, .t = t});
  }
};

struct SliceTrial {
  SlicesOptions options;
  int replicas = 3;
  int64_t steps = 40;
  bool finish = false;

  std::vector<at::Tensor> run() const {
    std::vector<at::Tensor> results(replicas);
    comm::run_world(replicas, [&](comm::GroupPtr group) {
      Learner learner(options, group, steps, plain_sgd(several_blocks()));
      for (int64_t t = 1; t <= steps; ++t) learner.step(t);
      if (finish) learner.strategy.finish(learner.x);
      results[group->rank()] = learner.x.clone();
    });
    return results;
  }
};

// The rule of slices.h, in double precision, with index lists and no thought for speed.
std::vector<at::Tensor> by_definition(const SliceTrial& trial) {
  const SlicesOptions& o = trial.options;
  const auto layout = several_blocks();
  const Slicing slicing{.seed = static_cast<uint64_t>(o.seed), .numel = layout.numel, .block = o.block};
  const int m = trial.replicas;
  const at::Tensor start = on_pieces(layout, 7).to(at::kDouble);
  at::Tensor z = start.clone(), momentum = at::zeros_like(z);
  std::vector<at::Tensor> x(m), e(m), target(m);
  for (int i = 0; i < m; ++i) {
    x[i] = start.clone(), e[i] = at::full_like(start, NAN);
    target[i] = on_pieces(layout, 100 + i).to(at::kDouble);
  }
  struct Flight {
    int64_t launch, due;
    std::vector<int64_t> elements;
    std::vector<std::map<int64_t, double>> y;
    std::map<int64_t, double> answer;
  };
  std::deque<Flight> air;
  auto value = [](const at::Tensor& t) { return t.mutable_data_ptr<double>(); };
  auto land = [&](Flight& f) {
    for (int64_t j : f.elements) {
      if (o.merge == "anchor") {
        value(momentum)[j] = o.momentum * value(momentum)[j] + f.answer[j];
        value(z)[j] += o.outer_lr * value(momentum)[j];
      }
      for (int i = 0; i < m; ++i) {
        const double before = value(x[i])[j], y = f.y[i][j];
        double& now = value(x[i])[j];
        if (o.merge == "overwrite") now = f.answer[j];
        if (o.merge == "delta") now += f.answer[j] - y;
        if (o.merge == "anchor") now += value(z)[j] - y;
        if (o.merge == "ema") {
          double& drift = value(e[i])[j];
          const double mu = o.mu(f.launch);
          drift = std::isnan(drift) ? before - y : mu * drift + (1 - mu) * (before - y);
          now = f.answer[j] + drift;
        }
        if (o.redraw)
          for (Flight& later : air)
            if (&later != &f && later.y[i].contains(j)) later.y[i][j] += now - before;
      }
    }
  };
  std::vector<kernels::Part> parts;
  auto land_due = [&](int64_t s) {
    for (; !air.empty() && air.front().due <= s; air.pop_front()) land(air.front());
  };
  for (int64_t s = 1; s <= trial.steps; ++s) {
    for (int i = 0; i < m; ++i) x[i] -= (x[i] - target[i]) * static_cast<double>(static_cast<float>(Learner::lr(s)));
    land_due(s);
    const int64_t n = o.slices.at(s, trial.steps), launch = s / o.every;
    if (s % o.every == 0) {
      Flight f{.launch = launch, .due = s + o.delay.steps, .elements = {}, .y = {}, .answer = {}};
      slicing.parts_of(n, (launch - 1) % n, o.redraw ? (launch - 1) / n : 0, parts);
      f.y.resize(m);
      for (const auto& part : parts)
        for (int64_t j = part.at; j < part.at + part.numel; ++j) {
          f.elements.push_back(j);
          double sum = 0;
          for (int i = 0; i < m; ++i) sum += f.y[i][j] = value(x[i])[j];
          f.answer[j] = sum / m - (o.merge == "anchor" ? value(z)[j] : 0);
        }
      air.push_back(std::move(f));
    }
    land_due(s);
  }
  for (auto& t : x) t = t.to(at::kFloat);
  return x;
}

const std::vector<std::pair<const char*, SlicesOptions>> kCases = {
    {"sparta", {.slices = 3, .delay = 0, .merge = "overwrite"}},
    {"late overwrite", {.slices = 4, .delay = 3, .merge = "overwrite"}},
    {"late delta every second step", {.slices = 3, .every = 2, .delay = 6, .merge = "delta"}},
    {"ema", {.slices = 4, .delay = 3, .merge = "ema", .ema = {0.7, 0.9}}},
    {"ema with redrawn slices that meet", {.slices = 4, .delay = 6, .merge = "ema", .redraw = true, .ema = {0.5, 0.9}}},
    {"delta with redrawn slices that meet", {.slices = 3, .delay = 5, .merge = "delta", .redraw = true}},
    {"anchor", {.slices = 7, .delay = 1}},
    {"anchor with momentum and larger blocks",
     {.slices = 2, .delay = 2, .outer_lr = 0.8, .momentum = 0.4, .block = 2048}},
};

TEST(Slices, EveryMergeFollowsItsDefinition) {
  for (const auto& [name, options] : kCases) {
    const SliceTrial trial{.options = options};
    const auto ours = trial.run(), plain = by_definition(trial);
    for (int i = 0; i < trial.replicas; ++i) EXPECT_LT(distance(ours[i], plain[i]), 2e-6) << name << ", replica " << i;
  }
}

TEST(Slices, PaddingStaysZero) {
  const auto layout = several_blocks();
  at::Tensor padding = at::ones({layout.numel});
  for (const auto& piece : layout.pieces) padding.narrow(0, piece.at, piece.numel).zero_();
  for (const char* codec : {"none", "one_bit", "int8"}) {
    const auto x = SliceTrial{.options = {.slices = 3, .codec = {codec}}, .finish = true}.run();
    EXPECT_EQ((x[0] * padding).abs().sum().item<double>(), 0) << codec;
    EXPECT_GT(padding.sum().item<double>(), 0);
  }
}

// ---- slices are values

TEST(Slicing, TheSlicesOfACycleHoldEveryNumberExactlyOnce) {
  for (int64_t numel : {1024, 7 * 1024, 100 * 1024, 64 * 1024})
    for (int64_t block : {1024, 4096})
      for (int64_t count : {1, 3, 8, 20}) {
        const Slicing slicing{.seed = 5, .numel = numel, .block = block};
        if (count > slicing.blocks()) continue;
        at::Tensor seen = at::zeros({numel});
        int64_t least = numel, most = 0;
        for (int64_t s = 0; s < count; ++s) {
          std::vector<kernels::Part> parts;
          slicing.parts_of(count, s, 2, parts);
          int64_t packed = 0;
          for (const auto& part : parts) {
            EXPECT_EQ(part.packed, packed);
            packed += part.numel;
            seen.narrow(0, part.at, part.numel) += 1;
          }
          least = std::min(least, packed), most = std::max(most, packed);
        }
        EXPECT_TRUE(at::equal(seen, at::ones({numel})));
        EXPECT_LE(most - least, block);
      }
}

TEST(Slicing, EveryRunOfNeighboursGivesEachSliceOneBlock) {
  const Slicing slicing{.seed = 1, .numel = 24 * 1024};
  for (int64_t s = 0; s < 8; ++s) {
    std::vector<kernels::Part> parts;
    slicing.parts_of(8, s, 0, parts);
    ASSERT_EQ(parts.size(), 3);
    for (int64_t run = 0; run < 3; ++run) EXPECT_EQ(parts[run].at / 1024 / 8, run);
  }
}

TEST(Slicing, ASliceIsAFunctionOfSeedCountCycleAndLengthAlone) {
  auto blocks = [](uint64_t seed, int64_t cycle) {
    std::vector<kernels::Part> parts;
    Slicing{.seed = seed, .numel = 12 * 1024}.parts_of(4, 1, cycle, parts);
    std::vector<int64_t> list;
    for (const auto& part : parts) list.push_back(part.at / 1024);
    return list;
  };
  EXPECT_EQ(blocks(0, 0), (std::vector<int64_t>{1, 6, 8}));
  EXPECT_EQ(blocks(0, 1), (std::vector<int64_t>{3, 4, 8}));
  EXPECT_EQ(blocks(9, 0), (std::vector<int64_t>{0, 5, 8}));
}

// ---- identities

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b, double within) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (within == 0)
      EXPECT_TRUE(at::equal(a[i], b[i])) << "replica " << i;
    else
      EXPECT_LT(distance(a[i], b[i]), within) << "replica " << i;
  }
}

// The same problem under periodic averaging.
std::vector<at::Tensor> periodic(const PeriodicOptions& options, double lr, int64_t steps) {
  std::vector<at::Tensor> results(3);
  comm::run_world(3, [&](comm::GroupPtr group) {
    const auto layout = several_blocks();
    at::Tensor x = on_pieces(layout, 7), grad = at::zeros_like(x), target = on_pieces(layout, 100 + group->rank());
    Periodic strategy(layout, {.sync = group}, plain_sgd(layout), options, x);
    for (int64_t t = 1; t <= steps; ++t) {
      grad.copy_(x).sub_(target);
      const double rate = lr > 0 ? lr : Learner::lr(t);
      strategy.step({.x = x, .next = x, .grad = grad, .lr = std::array{rate, rate}, .t = t});
    }
    results[group->rank()] = x.clone();
  });
  return results;
}

TEST(Slices, OneSliceEveryStepWithoutDelayIsAveragingWeightsEveryStep) {
  expect_equal(SliceTrial{.options = {.slices = 1, .delay = 0, .merge = "overwrite"}}.run(),
               periodic({.period = 1}, 0, 40), 0);
}

TEST(Slices, AnAnchorWithoutMomentumIsDelta) {
  expect_equal(SliceTrial{.options = {.slices = 3, .delay = 2, .merge = "anchor"}}.run(),
               SliceTrial{.options = {.slices = 3, .delay = 2, .merge = "delta"}}.run(), 2e-7);
}

TEST(Slices, AnAnchorWithMomentumAndOneSliceIsSlowmo) {
  std::vector<at::Tensor> ours(3);
  comm::run_world(3, [&](comm::GroupPtr group) {
    Learner learner({.slices = 1, .every = 5, .delay = 0, .outer_lr = 0.9, .momentum = 0.5}, group, 0,
                    plain_sgd(several_blocks()));
    for (int64_t t = 1; t <= 40; ++t) {
      learner.grad.copy_(learner.x).sub_(learner.target);
      learner.strategy.step(
          {.x = learner.x, .next = learner.x, .grad = learner.grad, .lr = std::array{0.05, 0.05}, .t = t});
    }
    ours[group->rank()] = learner.x.clone();
  });
  expect_equal(ours, periodic({.period = 5, .outer = "heavy_ball", .outer_lr = 0.9, .momentum = 0.5}, 0.05, 40), 1e-7);
}

TEST(Slices, OneReplicaAloneIsChangedByNoNamedStrategy) {
  for (const char* name : {"sparta", "async_sparta", "asyncmesh", "loscar", "drip"}) {
    auto options = preset(name).slices;
    options.slices = 7;
    options.delay = std::min<int64_t>(options.delay.steps, 7);
    SliceTrial trial{.options = options, .replicas = 1, .finish = true};
    SliceTrial never = trial;
    never.options.every = 1000;  // no launch in 40 steps
    expect_equal(trial.run(), never.run(), 0);
  }
}

TEST(Slices, AfterFinishTheConsensusIsWhatFinishWrote) {
  for (const char* name : {"sparta", "asyncmesh", "drip"})
    comm::run_world(3, [&](comm::GroupPtr group) {
      auto options = preset(name).slices;
      options.slices = 7, options.delay = 1;
      Learner learner(options, group, 0, plain_sgd(several_blocks()));
      for (int64_t t = 1; t <= 10; ++t) learner.step(t);
      learner.strategy.finish(learner.x);
      EXPECT_TRUE(at::equal(learner.strategy.consensus(learner.x), learner.x)) << name;
      learner.step(11);
      EXPECT_FALSE(at::equal(learner.strategy.consensus(learner.x), learner.x)) << name;
    });
}

TEST(Slices, AllReplicasAgreeOnTheAnchorBitForBitWithAnyCodec) {
  for (const char* codec : {"none", "one_bit", "int8", "int4", "int2", "bf16", "half", "topk:0.1"}) {
    const auto x = SliceTrial{.options = {.slices = 3, .codec = {codec}}, .finish = true}.run();
    expect_equal({x[0], x[0]}, {x[1], x[2]}, 0);
  }
}

// ---- known answers

// Four replicas, one coordinate that drifts by 1e-3 a step in all of them: where it is, relative to the 21st step.
// Replica i starts `spread` times i away from replica 0.
std::vector<double> drifts(SlicesOptions options, int64_t steps, double spread = 0) {
  std::vector<double> ends(4);
  options.slices = 1, options.every = 20;
  comm::run_world(4, [&](comm::GroupPtr group) {
    const auto layout = optim::make_layout({{at::zeros({1})}});
    at::Tensor x = at::zeros({layout.numel}), grad = at::zeros_like(x);
    Slices strategy(layout, {.sync = group}, plain_sgd(layout), options, x, 0);
    x[0] = spread * group->rank();
    grad[0] = -1;
    for (int64_t t = 1; t <= steps; ++t)
      strategy.step({.x = x, .next = x, .grad = grad, .lr = std::array{1e-3, 1e-3}, .t = t});
    ends[group->rank()] = x[0].item<double>() - 0.020;
  });
  return ends;
}

TEST(Slices, ALateOverwriteLosesHalfTheDriftWhereDeltaAndEmaLoseNothing) {
  auto options = [](const char* merge) { return SlicesOptions{.delay = 10, .merge = merge, .ema = {0.5, 0.5}}; };
  EXPECT_NEAR(drifts(options("delta"), 4020)[0], 4.000, 2e-3);
  EXPECT_NEAR(drifts(options("overwrite"), 4020)[0], 2.000, 2e-3);
  EXPECT_NEAR(drifts(options("ema"), 4020)[0], 4.000, 2e-3);
}

TEST(Slices, JumpsThatAreCarriedKeepReplicasTogetherEvenWhereSlicesMeet) {
  const auto ends = drifts({.delay = 50, .merge = "delta", .redraw = true}, 4020, 1.0);
  EXPECT_LT(std::ranges::max(ends) - std::ranges::min(ends), 1e-3);  // it was 3, and would grow 1.151-fold a launch
}

TEST(Slices, TheExpectedDriftForgetsMoreSlowlyWithTime) {
  const SlicesOptions o;
  EXPECT_DOUBLE_EQ(o.mu(1), 0.5);
  EXPECT_DOUBLE_EQ(o.mu(1000), 0.5);
  EXPECT_NEAR(o.mu(15'500), 0.745, 1e-12);
  EXPECT_DOUBLE_EQ(o.mu(30'000), 0.99);
  EXPECT_DOUBLE_EQ(o.mu(1'000'000), 0.99);
}

std::optional<double> prediction_error(const SlicesOptions& options) {
  std::optional<double> error;
  comm::run_world(3, [&](comm::GroupPtr group) {
    auto probe = std::make_shared<StalenessProbe>(group, optim::OverShards());
    Learner learner(options, group, 0, plain_sgd(several_blocks()), probe);
    for (int64_t t = 1; t <= 20; ++t) probe->enable(t == 20), learner.step(t);
    const auto found = probe->error();
    if (group->rank() == 0) error = found;
  });
  return error;
}

TEST(Slices, DeltaPredictsPerfectlyAndOverwriteNotAtAll) {
  EXPECT_NEAR(*prediction_error({.slices = 4, .delay = 3, .merge = "delta"}), 0, 1e-5);
  EXPECT_NEAR(*prediction_error({.slices = 4, .delay = 3, .merge = "overwrite"}), 1, 1e-5);
  EXPECT_FALSE(prediction_error({.slices = 4, .delay = 0, .merge = "overwrite"}));
}

// ---- saving, schedules, bytes

TEST(Slices, ARunThatIsSavedWithSlicesInTheAirEndsOnTheSameBits) {
  auto cases = kCases;
  cases.push_back({"drip", {.slices = 3, .delay = 2, .codec = {"one_bit"}}});
  cases.push_back({"a schedule", {.slices = 3, .codec = {"one_bit"}}});
  read(Value(std::string("6, at 50% 3")), "slices", cases.back().second.slices, any());
  for (const auto& [name, options] : cases)
    for (int64_t saved : {1, 19, 20, 21, 22, 33})
      comm::run_world(3, [&, saved](comm::GroupPtr group) {
        auto make = [&] { return Learner(options, group, 40, adamw(several_blocks())); };
        Learner whole = make(), second = make();
        for (int64_t t = 1; t <= 40; ++t) {
          whole.step(t);
          if (t == saved) {
            State copy;
            for (const auto& [key, entry] : whole.strategy.state()) copy[key] = {entry.value.clone(), entry.scope};
            second.x.copy_(whole.x);
            second.strategy.load(copy);
          } else if (t > saved) {
            second.step(t);
          }
        }
        EXPECT_TRUE(at::equal(whole.x, second.x)) << name << ", saved after step " << saved;
        whole.strategy.finish(whole.x), second.strategy.finish(second.x);
        EXPECT_TRUE(at::equal(whole.x, second.x)) << name;
      });
}

TEST(Slices, WhereTheNumberOfSlicesChangesOneLaunchIsLeftOut) {
  SlicesOptions options;
  read(Value(std::string("6, at 50% 3")), "slices", options.slices, any());
  comm::run_world(2, [&](comm::GroupPtr group) {
    Learner learner(options, group, 20, plain_sgd(several_blocks()));
    std::vector<int64_t> sent;
    for (int64_t t = 1; t <= 20; ++t) {
      const int64_t before = group->ledger().sent();
      learner.step(t);
      sent.push_back(group->ledger().sent() - before);
    }
    for (int64_t t = 1; t <= 20; ++t) EXPECT_EQ(sent[t - 1] == 0, t == 11) << t;
    const auto middle = sent.begin() + 10;
    EXPECT_GT(std::accumulate(middle, sent.end(), int64_t{0}), 1.5 * std::accumulate(sent.begin(), middle, 0.0));
  });
}

TEST(SliceCount, ReadsNumbersAndSchedulesAndWritesThemBack) {
  auto text = [](const Value& value) {
    SliceCount count;
    read(value, "strategy.slices", count, at_least(1));
    return toml_text(to_value(count));
  };
  EXPECT_EQ(text(int64_t{8}), "8");
  EXPECT_EQ(text(std::string("8")), "8");
  EXPECT_EQ(text(std::string("8, at 10% 4")), "\"8, at 10% 4\"");
  EXPECT_EQ(text(std::string(" 8,at 100 4,  at 2000 2")), "\"8, at 100 4, at 2000 2\"");
  for (const char* wrong : {"", "x", "8, 4", "8, at 4", "8, at 10% 0", "8, at 0% 4", "8, at 200% 4",
                            "8, at 50% 4, at 20% 2", "8, at 10%", "0", "-3", "8,", "8 at 10% 4"})
    EXPECT_THROW(text(std::string(wrong)), BadInput) << wrong;
  EXPECT_THROW(text(int64_t{0}), BadInput);
}

TEST(SliceCount, AShareOfAnUnknownNumberOfStepsIsRefused) {
  SliceCount count;
  read(Value(std::string("8, at 10% 4")), "strategy.slices", count, at_least(1));
  EXPECT_EQ(count.at(100, 1000), 8);
  EXPECT_EQ(count.at(101, 1000), 4);
  EXPECT_THROW(count.at(101, 0), BadInput);
}

TEST(Slices, DripSendsAThirtyFirstOfAnEighthOfWhatAllReduceSends) {
  comm::run_world(4, [](comm::GroupPtr group) {
    const auto layout = optim::make_layout({{at::zeros({1024, 1024})}});
    at::Tensor x = at::zeros({layout.numel}), grad = at::ones({layout.numel});
    Slices strategy(layout, {.sync = group}, plain_sgd(layout), preset("drip").slices, x, 0);
    const int64_t before = group->ledger().sent();
    for (int64_t t = 1; t <= 8; ++t)
      strategy.step({.x = x, .next = x, .grad = grad, .lr = std::array{1e-3, 1e-3}, .t = t});
    strategy.finish(x);
    const double dense = 8 * 2 * 3.0 / 4 * 4 * static_cast<double>(layout.numel);
    EXPECT_NEAR(dense / static_cast<double>(group->ledger().sent() - before), 256, 0.05 * 256);
  });
}

// ---- bad input

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const BadInput& error) {
    return error.what();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "nothing was thrown";
}

TEST(Slices, OptionsThatDoNotFitTogetherAreRefused) {
  const auto text = [](SlicesOptions o) { return error_of([&] { check_fields("strategy", o); }); };
  EXPECT_EQ(text({.slices = 3, .every = 2, .delay = 7}),
            "a slice would leave again before it landed: strategy.every x strategy.slices >= strategy.delay is needed, "
            "got 2 x 3 = 6 < 7");
  EXPECT_EQ(text({.slices = 3, .delay = 7, .merge = "ema", .redraw = true}), "nothing was thrown");
  EXPECT_EQ(text({.redraw = true}),
            "strategy.merge = \"anchor\" needs strategy.redraw = false: an anchor's slices come again");
  EXPECT_EQ(text({.merge = "delta", .codec = {"one_bit"}}).substr(0, 95),
            "strategy.codec = \"one_bit\" needs strategy.merge = \"anchor\": with \"delta\" the weights themselves");
  EXPECT_EQ(text({.merge = "delta", .codec = {"int8"}}), "nothing was thrown");
  EXPECT_EQ(text({.slices = 3, .merge = "ema", .redraw = true, .codec = {"int8"}}).substr(0, 61),
            "strategy.codec = \"int8\" needs strategy.redraw = false: what a");
  EXPECT_EQ(text({.block = 1500}), "strategy.block must be a multiple of 1024, got 1500");
  EXPECT_EQ(text({.merge = "mean"}), "strategy.merge must be one of overwrite, delta, ema, anchor, got \"mean\"");
}

TEST(Slices, MoreSlicesThanBlocksAreRefused) {
  comm::run_world(1, [](comm::GroupPtr group) {
    EXPECT_EQ(error_of([&] { Learner({.slices = 9}, group, 0, plain_sgd(several_blocks())); }),
              "strategy.slices = 9 is too many for a model of 7168 weights: a slice is made of blocks of 1024, so "
              "there can be at "
              "most 7; take fewer slices, or a larger model");
  });
}

TEST(Slices, AWeightThatIsNotFiniteIsNamed) {
  comm::run_world(2, [](comm::GroupPtr group) {
    auto layout = several_blocks();
    layout.names = {"first.matrix", "first.bias", "second.matrix", "second.bias"};
    at::Tensor x = on_pieces(layout, 7), grad = at::zeros_like(x);
    Slices strategy(layout, {.sync = group}, plain_sgd(layout), {.slices = 1, .codec = {"one_bit"}}, x, 0);
    x[layout.pieces[2].at + 1234] = NAN;
    const auto error = error_of([&] {
      strategy.step({.x = x, .next = x, .grad = grad, .lr = std::array{1e-3, 1e-3}, .t = 1});
    });
    EXPECT_NE(error.find("the weights: element 1234 of second.matrix is nan"), std::string::npos) << error;
  });
}

TEST(SlicesOptions, HoldsTheDecayForANumberOfLaunchesOrAShareOfThem) {
  SlicesOptions o = preset("asyncmesh").slices;
  EXPECT_DOUBLE_EQ(o.mu(1000), 0.5);
  EXPECT_GT(o.mu(1001), 0.5);
  o.ema_hold = 10;
  EXPECT_DOUBLE_EQ(o.mu(10), 0.5);
  EXPECT_GT(o.mu(11), 0.5);
  read(Value(std::string("5%")), "strategy.ema_hold", o.ema_hold, at_least(0));
  EXPECT_DOUBLE_EQ(o.mu(100, 2000), 0.5);
  EXPECT_GT(o.mu(101, 2000), 0.5);
  EXPECT_THROW(o.mu(1, 0), BadInput) << "a share of a number that is not known";
  EXPECT_THROW(read(Value(std::string("5")), "strategy.ema_hold", o.ema_hold, at_least(0)), BadInput);
  EXPECT_EQ(std::get<std::string>(to_value(o.ema_hold)), "5%");
}

TEST(StalenessProbe, TakesSamplesOfLongVectors) {
  EXPECT_EQ(sample(at::zeros({1000})).numel(), 1000);
  const at::Tensor x = at::arange(3 * kSample, at::kFloat);
  const at::Tensor taken = sample(x);
  EXPECT_EQ(taken.numel(), kSample);
  EXPECT_EQ(taken[5].item<float>(), 15);
  taken.fill_(-1);
  EXPECT_EQ(x[15].item<float>(), 15) << "a copy";
}

}  // namespace
}  // namespace thinwire::dp
