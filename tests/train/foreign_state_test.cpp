// A checkpoint is foreign bytes: whoever can write one can seal it, so every number in it is looked at when it is read.
#include <ATen/ops/full_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/train/saved_run.h"
#include "tests/train/small_run.h"
#include "thinwire/base/errors.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/comm/errors.h"

namespace thinwire::train {
namespace {

// What an entry may be changed to; a scalar to other scalars, a tensor to ones of other shapes, types and contents.
std::vector<at::Tensor> instead_of(const at::Tensor& value) {
  std::vector<at::Tensor> others;
  if (value.dim() == 0) {
    for (const double x : {0.0, -1.0, -7.0, 0x1p31, 0x1p62})
      others.push_back(at::scalar_tensor(x, value.scalar_type()));
    if (value.scalar_type() == at::kLong) others.push_back(at::scalar_tensor(INT64_MAX, at::kLong));
    for (const double x : {double(NAN), double(INFINITY)}) others.push_back(at::scalar_tensor(x, at::kDouble));
    others.push_back(at::zeros({3}, value.scalar_type()));
    return others;
  }
  others.push_back(at::zeros({value.numel() + 1}, value.scalar_type()));
  others.push_back(at::zeros(value.sizes(), value.scalar_type() == at::kLong ? at::kInt : at::kLong));
  others.push_back(at::full_like(value, value.is_floating_point() ? double(NAN) : 255));
  return others;
}

bool is_clear(const std::string& error) {
  for (const char* vague : {"INTERNAL ASSERT", "::at", "_M_", "bad_alloc", "allocate", "overflow", "json.exception"})
    if (error.find(vague) != error.npos) return false;
  return !error.empty();
}

// An entry that does not fit is named when it is loaded, or shows in a clear error later, or does no harm.
void expect_taken_or_refused(const SavedRun& run, const std::vector<State>& states, const std::string& change) {
  const std::string of = run.name + ": " + change;
  try {
    run.resume(states);
  } catch (const SavedRun::Refused& error) {
    EXPECT_TRUE(error.bad_input && std::string(error.what()).starts_with("the saved ")) << of << ": " << error.what();
  } catch (const comm::Timeout& error) {
    ADD_FAILURE() << of << " left ranks waiting: " << error.what();
  } catch (const std::exception& error) {
    EXPECT_TRUE(is_clear(one_line(error))) << of << ": " << one_line(error);
  }
}

class ForeignState : public testing::TestWithParam<std::string> {};

TEST_P(ForeignState, IsTakenOrRefusedWhicheverEntryIsChanged) {
  const SavedRun run(GetParam());
  EXPECT_NO_THROW(run.resume(run.saved)) << run.name;
  std::set<std::string> entries;
  for (const State& state : run.saved)
    for (const auto& item : state) entries.insert(item.first);
  for (const std::string& entry : entries) {
    const auto holder = std::ranges::find_if(run.saved, [&](const State& state) { return state.contains(entry); });
    auto others = instead_of(holder->at(entry).value);
    others.emplace_back();  // and without it
    for (const at::Tensor& other : others) {
      std::vector<State> states = run.saved;
      for (State& state : states) {
        if (!state.contains(entry)) continue;
        if (other.defined())
          state[entry].value = other;
        else
          state.erase(entry);
      }
      std::ostringstream change;
      change << entry << " = ";
      if (other.defined()) change << other.scalar_type() << other.sizes() << " ";
      if (other.defined() && other.dim() == 0) change << other.item<double>();
      expect_taken_or_refused(run, states, change.str());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ForeignState, testing::ValuesIn(kinds_of_runs()),
                         [](const auto& kind) { return fmt::format("kind_{}", kind.index); });

class ResealedCheckpoint : public SmallRun {};

TEST_F(ResealedCheckpoint, IsRefusedByTheNamesOfItsFolderAndItsEntry) {
  const Recipe drip = recipe({"strategy.name=drip", "train.steps=6", "train.save_every=3"});
  const fs::path dir = home_ / "run", folder = checkpoint::folder_of(dir, 6);
  run_of(drip, {.dir = dir});
  const auto reseal = [&](const std::function<void(State&)>& change) {
    const auto facts = checkpoint::read_manifest(folder).facts;
    comm::run_threads(2, [&](comm::World& world) {
      State state = checkpoint::load(folder, world.rank()).state;
      change(state);
      world.group->barrier();
      checkpoint::save(dir, 6, state, facts, 2, world, {2, 1, 1});
    });
  };
  reseal([](State& state) { put(state, "strategy.slices", int64_t{0}, Scope::all_equal); });
  EXPECT_NO_THROW(checkpoint::verify(folder));
  EXPECT_EQ(error_of(drip, {.dir = dir, .resume = true}), folder.string() + ": the saved 'slices' must be 8, got 0");
  reseal([](State& state) {
    put(state, "strategy.slices", int64_t{8}, Scope::all_equal);
    state["strategy.z"].value = at::zeros({3});
  });
  EXPECT_TRUE(
      error_of(drip, {.dir = dir, .resume = true}).starts_with(folder.string() + ": the saved 'z' must be Float ["));
}

}  // namespace
}  // namespace thinwire::train
