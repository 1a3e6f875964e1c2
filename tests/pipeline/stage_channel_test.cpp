#include "thinwire/pipeline/stage_channel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/pipeline/oracle.h"
#include "thinwire/base/errors.h"

namespace thinwire::pipeline {
namespace {

using WorldGroup = std::shared_ptr<comm::TransportGroup>;

const std::vector<int64_t> kShape = {2, 5, 100};

at::Tensor numbers(const char* what, uint64_t k, at::ScalarType dtype = at::kFloat) {
  return at::empty(kShape, at::kFloat).normal_(0, 1, generator(3, what, k)).to(dtype);
}

// The rule by its definition: sorted magnitudes, one message after the other.
class PlainMasks {
 public:
  explicit PlainMasks(double keep, int64_t renew = 50) : keep_(keep), renew_(renew) {}
  at::Tensor next(const at::Tensor& h) {
    const at::Tensor size = h.to(at::kDouble).abs();
    const auto K = std::ceil(keep_ * static_cast<double>(h.numel()));
    const auto reached = [&] { return size.ge(threshold_).logical_and(size.gt(0)); };
    const auto count = reached().sum().item<double>();
    if (k_++ % renew_ == 0 || count < K / 2 || count > 2 * K)
      threshold_ =
          std::get<0>(size.flatten().sort(/*dim=*/0, /*descending=*/true))[static_cast<int64_t>(K) - 1].item<double>();
    return reached();
  }

 private:
  const double keep_;
  const int64_t renew_;
  double threshold_ = 0;
  int64_t k_ = 0;
};

at::Tensor only(const at::Tensor& x, const at::Tensor& mask) { return at::where(mask, x, at::zeros_like(x)); }

// One channel; rank 0 is upstream.
template <class Upstream, class Downstream>
void over_channel(const ActivationSpec& activation, Upstream&& upstream, Downstream&& downstream) {
  comm::run_world(2, [&](WorldGroup world) {
    StageChannel channel(world, 1 - world->rank(), activation);
    if (world->rank() == 0)
      upstream(channel, *world);
    else
      downstream(channel, *world);
    world->barrier();
  });
}

template <class Upstream, class Downstream>
std::string error_across(const ActivationSpec& activation, Upstream&& upstream, Downstream&& downstream) {
  try {
    over_channel(activation, upstream, downstream);
  } catch (const std::exception& error) {
    return one_line(error);
  }
  return "no error";
}

TEST(StageChannel, ThatIsThresholdedPassesWhatTheMaskSays) {
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    std::vector<at::Tensor> masks;
    PlainMasks plain(0.1);
    for (uint64_t k = 0; k < 6; ++k) masks.push_back(plain.next(numbers("h", k, dtype)));
    // Three activations are under way before the first gradient comes back.
    over_channel(
        {kShape, dtype, {"threshold:0.1"}},
        [&](StageChannel& channel, comm::Group&) {
          for (uint64_t k = 0; k < 9; ++k) {
            if (k < 6) channel.send(numbers("h", k, dtype));
            if (k < 3) continue;
            const at::Tensor gradient = channel.recv();
            EXPECT_EQ(gradient.scalar_type(), dtype);
            EXPECT_TRUE(gradient.equal(only(numbers("g", k - 3, dtype), masks[k - 3]))) << "gradient " << k - 3;
          }
        },
        [&](StageChannel& channel, comm::Group&) {
          for (uint64_t k = 0; k < 9; ++k) {
            if (k < 6) {
              const at::Tensor h = channel.recv();
              EXPECT_EQ(h.scalar_type(), dtype);
              EXPECT_TRUE(h.equal(only(numbers("h", k, dtype), masks[k]))) << "activation " << k;
            }
            if (k >= 3) channel.send(numbers("g", k - 3, dtype));
          }
        });
  }
}

TEST(StageChannel, FindsTheThresholdAnewWhereTheCountLeavesTheBand) {
  const double sizes[] = {1, 1.1, 20, 19, 0.1, 0.1};
  PlainMasks plain(0.1);
  std::vector<at::Tensor> masks;
  for (uint64_t k = 0; k < 6; ++k) masks.push_back(plain.next(numbers("h", 0) * sizes[k]));
  ASSERT_EQ(masks[0].sum().item<int64_t>(), 100);
  ASSERT_GT(masks[1].sum().item<int64_t>(), 100) << "the old threshold";
  ASSERT_EQ(masks[2].sum().item<int64_t>(), 100) << "a new one";
  ASSERT_LT(masks[3].sum().item<int64_t>(), 100);
  ASSERT_EQ(masks[4].sum().item<int64_t>(), 100);
  over_channel(
      {kShape, at::kFloat, {"threshold:0.1"}},
      [&](StageChannel& channel, comm::Group&) {
        for (double size : sizes) channel.send(numbers("h", 0) * size);
      },
      [&](StageChannel& channel, comm::Group&) {
        for (uint64_t k = 0; k < 6; ++k)
          EXPECT_TRUE(channel.recv().equal(only(numbers("h", 0) * sizes[k], masks[k]))) << k;
      });
}

TEST(StageChannel, SendsTheBytesOfItsFormat) {
  for (auto dtype : {at::kFloat, at::kBFloat16}) {
    const int64_t width = dtype == at::kFloat ? 4 : 2, bits = 128;  // 1000 of them, in whole words
    const int64_t count = PlainMasks(0.1).next(numbers("h", 0, dtype)).sum().item<int64_t>();
    EXPECT_NEAR(static_cast<double>(count), 100, 5);  // more where magnitudes are equal
    over_channel(
        {kShape, dtype, {"threshold:0.1"}},
        [&](StageChannel& channel, comm::Group& group) {
          channel.send(numbers("h", 0, dtype));
          channel.recv();
          EXPECT_EQ(group.ledger().sent(comm::TrafficKind::control), 8);
          EXPECT_EQ(group.ledger().sent(comm::TrafficKind::payload), bits + count * width);
          EXPECT_EQ(group.ledger().received(), count * width);
        },
        [&](StageChannel& channel, comm::Group& group) {
          channel.recv();
          channel.send(numbers("g", 0, dtype));
          EXPECT_EQ(group.ledger().received(), 8 + bits + count * width);
          EXPECT_EQ(group.ledger().sent(), count * width);
        });
  }
}

TEST(StageChannel, TakesMessagesInWithTheirMasks) {
  PlainMasks plain(0.1);
  std::vector<at::Tensor> masks;
  for (uint64_t k = 0; k < 3; ++k) masks.push_back(plain.next(numbers("h", k)));
  State up, down;
  std::vector<at::Tensor> prefetched;
  const ActivationSpec activation{kShape, at::kFloat, {"threshold:0.1"}};
  over_channel(
      activation,
      [&](StageChannel& channel, comm::Group&) {
        for (uint64_t k = 0; k < 3; ++k) channel.send(numbers("h", k));
        channel.put(up, "down.");
      },
      [&](StageChannel& channel, comm::Group&) {
        channel.recv();
        channel.prefetch(2);
        prefetched = channel.prefetched();
        channel.put(down, "up.");
      });
  ASSERT_EQ(prefetched.size(), 2u);
  over_channel(
      activation,
      [&](StageChannel& channel, comm::Group&) {
        channel.get(up, "down.");
        for (uint64_t k = 0; k < 3; ++k) EXPECT_TRUE(channel.recv().equal(only(numbers("g", k), masks[k]))) << k;
      },
      [&](StageChannel& channel, comm::Group&) {
        channel.get(down, "up.");
        for (const at::Tensor& x : prefetched) channel.restore(x);
        for (uint64_t k = 1; k < 3; ++k) EXPECT_TRUE(channel.recv().equal(only(numbers("h", k), masks[k]))) << k;
        for (uint64_t k = 0; k < 3; ++k) channel.send(numbers("g", k));
      });
}

TEST(StageChannel, WithADenseCodecIsWithinItsError) {
  const auto expect_near = [](const char* codec, const at::Tensor& got, const at::Tensor& sent) {
    // 8 significant bits of each number; half of a 127th of the largest one
    const at::Tensor bound = codec == std::string("bf16") ? sent.abs() / 256 : sent.abs().max() / 253;
    EXPECT_TRUE((got - sent).abs().le(bound).all().item<bool>()) << codec;
    EXPECT_FALSE(got.equal(sent)) << codec;
  };
  for (const char* codec : {"bf16", "int8"})
    over_channel(
        {kShape, at::kFloat, {codec}},
        [&](StageChannel& channel, comm::Group&) {
          for (uint64_t k = 0; k < 3; ++k) {
            channel.send(numbers("h", k));
            expect_near(codec, channel.recv(), numbers("g", k));
          }
        },
        [&](StageChannel& channel, comm::Group&) {
          for (uint64_t k = 0; k < 3; ++k) {
            expect_near(codec, channel.recv(), numbers("h", k));
            channel.send(numbers("g", k));
          }
        });
}

TEST(StageChannel, RejectsMessagesThatWereDamaged) {
  struct Damage {
    bool head;
    int64_t byte;
    const char* error;
  };
  for (const auto& [head, byte, error] :
       {Damage{true, 0, "these bytes are not a head"}, Damage{true, 4, "expected 532 bytes from rank 0, got 528"},
        Damage{true, 7, "numbers cannot be sent"}, Damage{false, 9, "the head says 100 numbers, the mask"},
        Damage{false, 126, "marks some behind the last"}}) {
    const std::string got = error_across(
        {kShape, at::kFloat, {"threshold:0.1"}},
        [&, head = head, byte = byte](StageChannel&, comm::Group& group) {
          auto encoded = Threshold(0.1, 50).encode(numbers("h", 0));
          const at::Tensor message = head ? encoded.head : encoded.body;
          message[byte] = message[byte].item<int>() ^ 1;
          group.send(encoded.head, 1, comm::TrafficKind::control);
          group.send(encoded.body, 1, comm::TrafficKind::payload);
        },
        [](StageChannel& channel, comm::Group&) { channel.recv(); });
    EXPECT_NE(got.find(error), std::string::npos) << got;
  }
}

TEST(StageChannel, RefusesWhatIsNotFinite) {
  for (const char* codec : {"int8", "threshold:0.1", "threshold:1"}) {
    const std::string got = error_across(
        {kShape, at::kFloat, {codec}},
        [](StageChannel& channel, comm::Group&) { channel.send(numbers("h", 0).fill_(NAN)); },
        [](StageChannel&, comm::Group&) {});
    EXPECT_NE(got.find("what stage 0 sends to stage 1 is not finite"), std::string::npos) << got;
  }
}

TEST(StageChannel, RefusesAGradientWithoutAnActivation) {
  const std::string got = error_across(
      {kShape, at::kFloat, {"threshold:0.1"}}, [](StageChannel&, comm::Group&) {},
      [](StageChannel& channel, comm::Group&) { channel.send(numbers("g", 0)); });
  EXPECT_NE(got.find("has no activation"), std::string::npos) << got;
}

void expect_same(const Outcome& a, const Outcome& b, const std::string& where) {
  for (size_t i = 0; i < a.weights.size(); ++i)
    for (size_t j = 0; j < a.weights[i].size(); ++j)
      EXPECT_TRUE(a.weights[i][j].equal(b.weights[i][j])) << where << ": replica " << i << ", stage " << j;
  EXPECT_EQ(a.losses, b.losses) << where;
}

TEST(StageChannel, ThatKeepsAllIsNoCodecBitForBit) {
  for (const char* schedule : {"async_1f1b", "1f1b", "zero_bubble_h1"})
    for (auto dtype : {at::kFloat, at::kBFloat16}) {
      Case c{.stages = 3, .schedule = schedule, .dtype = dtype};
      if (c.schedule == "async_1f1b")
        c.hop = 2;
      else
        c.microbatches = 2;
      const Outcome plain = pipeline(c);
      c.codec = "threshold:1";
      expect_same(pipeline(c), plain, schedule);
    }
}

// The stage of a pipeline without a codec that cuts its own result to the mask: h * mask goes down, and what comes up
// is cut on its way into the stage.
std::unique_ptr<Stage> make_cut_stage(const Case& c, const Mesh& mesh, double keep) {
  StageModule stage_module =
      train::stage_module_of(make_model(), units_of(mesh.stage, c.stages), schedule_of(c).asynchronous());
  struct Cut {
    PlainMasks masks;
    std::deque<at::Tensor> kept;  // from F to B
  };
  const auto cut = std::make_shared<Cut>(Cut{PlainMasks(keep), {}});
  if (mesh.stage < c.stages - 1)
    stage_module.forward = [cut, whole = stage_module.forward](const at::Tensor& input) {
      const at::Tensor h = whole(input);
      if (!at::GradMode::is_enabled()) return only(h, cut->kept.emplace_back(cut->masks.next(h)));
      const at::Tensor mask = cut->kept.front();
      cut->kept.pop_front();
      return only(h, mask);
    };
  return std::make_unique<Stage>(
      std::move(stage_module),
      StageOptions{.schedule = schedule_of(c),
                   .steps = c.steps,
                   .stash = c.stash,
                   .activation = {.shape = {kRows / c.microbatches, kContext, kWidth}, .dtype = c.dtype}},
      mesh.pipeline_group, [replica = mesh.replica](int64_t t) { return batch_of(t, replica); },
      [&](const optim::Flat& weights) {
        return dp::make_strategy(c.strategy, weights, {.sync = mesh.replica_group}, optim_of(c, mesh.stage), c.steps);
      });
}

Outcome cut_pipeline(const Case& c, double keep) {
  Outcome out;
  out.weights.assign(1, std::vector<at::Tensor>(c.stages));
  comm::run_world(c.stages, [&](WorldGroup world) {
    const Mesh mesh = mesh_of(world, c);
    const auto stage = make_cut_stage(c, mesh, keep);
    for (int64_t t = 1; t <= c.steps; ++t)
      if (const auto loss = stage->step(t, rate_at(t))) out.losses.push_back(*loss);
    out.weights[0][mesh.stage] = stage->newest().clone();
  });
  return out;
}

TEST(StageChannel, ThatIsThresholdedMakesAPipelineOfCutActivations) {
  for (const char* schedule : {"async_1f1b", "1f1b"})
    for (bool stash : {true, false})
      for (auto dtype : {at::kFloat, at::kBFloat16}) {
        Case c{.stages = 3, .schedule = schedule, .stash = stash, .dtype = dtype};
        if (c.schedule == "async_1f1b")
          c.hop = 2;
        else
          c.microbatches = 2, c.stash = true;
        const Outcome whole = pipeline(c), wanted = cut_pipeline(c, 0.2);
        c.codec = "threshold:0.2";
        expect_same(pipeline(c), wanted, schedule);
        EXPECT_NE(wanted.losses, whole.losses) << "or nothing was cut";
      }
}

// A run that saves after step `at`, and goes on; or one that ends there, whose state another one starts from.
Outcome saved_at(const Case& c, int64_t at, bool ends) {
  Outcome out;
  out.weights.assign(c.replicas, std::vector<at::Tensor>(c.stages));
  std::vector<State> saved(c.replicas * c.stages);
  const auto run = [&](int64_t from, int64_t to) {
    comm::run_world(c.replicas * c.stages, [&](WorldGroup world) {
      const Mesh mesh = mesh_of(world, c);
      const auto stage = make_stage(c, mesh);
      if (from > 0) stage->load(saved[world->rank()]);
      for (int64_t t = from + 1; t <= to; ++t) {
        const auto loss = stage->step(t, rate_at(t));
        if (loss && mesh.replica == 0) out.losses.push_back(*loss);
        if (t != at) continue;
        for (const auto& [name, entry] : stage->state())
          saved[world->rank()][name] = {entry.value.clone(), entry.scope};
      }
      out.weights[mesh.replica][mesh.stage] = stage->newest().clone();
    });
  };
  run(0, ends ? at : c.steps);
  if (ends) run(at, c.steps);
  return out;
}

TEST(StageChannel, IsResumedBitForBit) {
  for (const char* codec : {"threshold:0.2", "int8"})
    for (bool stash : {true, false})
      for (int64_t at : {1, 5, 11}) {
        const Case c{.stages = 3, .hop = 2, .stash = stash, .codec = codec};
        const Outcome whole = pipeline(c);
        expect_same(saved_at(c, at, /*ends=*/false), whole, fmt::format("{} saved at {}", codec, at));
        expect_same(saved_at(c, at, /*ends=*/true), whole, fmt::format("{} resumed at {}", codec, at));
      }
}

}  // namespace
}  // namespace thinwire::pipeline
