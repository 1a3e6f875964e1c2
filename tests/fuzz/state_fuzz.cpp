// libFuzzer: a run of any kind (every strategy, update rule and pipeline) loads a saved state with some entries changed
// and goes on, or says what is wrong. The input: which kind, then one change after another.
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <cstring>
#include <memory>
#include <span>

#include "tests/train/saved_run.h"
#include "thinwire/comm/errors.h"

namespace {

using namespace thinwire;

struct Input {
  std::span<const uint8_t> left;

  uint8_t byte() {
    if (left.empty()) return 0;
    const uint8_t next = left.front();
    left = left.subspan(1);
    return next;
  }
  template <class T>
  T number() {
    uint8_t bytes[sizeof(T)];
    for (uint8_t& b : bytes) b = byte();
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }
};

at::Tensor changed(const at::Tensor& value, Input& input) {
  switch (input.byte() % 8) {
    case 0:
      return at::scalar_tensor(int64_t{input.number<int8_t>()}, at::kLong);
    case 1:
      return at::scalar_tensor(input.number<int64_t>(), at::kLong);
    case 2:
      return at::scalar_tensor(input.number<double>(), at::kDouble);
    case 3:
      return at::zeros({input.byte(), input.byte() % 3}, value.scalar_type());
    case 4:
      return at::zeros(value.sizes(), input.byte() % 2 ? at::kByte : at::kBool);
    default: {  // other bytes in the same shape: the input's, again and again
      at::Tensor other = value.clone();
      const std::span bytes(static_cast<uint8_t*>(other.mutable_data_ptr()), other.nbytes());
      const size_t many = 1 + input.byte() % 16;
      const auto from = input.left.first(std::min(input.left.size(), many));
      for (size_t i = 0; !from.empty() && i < bytes.size(); ++i) bytes[i] = from[i % from.size()];
      return other;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::string> kinds = train::kinds_of_runs();
  static std::vector<std::unique_ptr<train::SavedRun>> runs(kinds.size());
  Input input{{data, size}};
  auto& run = runs[input.byte() % runs.size()];
  if (!run) run = std::make_unique<train::SavedRun>(kinds[&run - runs.data()]);
  std::vector<State> states = run->saved;
  while (!input.left.empty()) {
    State& state = states[input.byte() % states.size()];
    const auto entry = std::next(state.begin(), input.byte() % state.size());
    // What all hold alike is one file: changed for all ranks of a stage that have it.
    const at::Tensor other = changed(entry->second.value, input);
    const std::string name = entry->first;
    for (State& each : states)
      if (const auto it = each.find(name);
          it != each.end() && (&each == &state || it->second.scope == Scope::all_equal))
        it->second.value = other;
  }
  try {
    run->resume(states);
  } catch (const train::SavedRun::Refused& error) {
    if (!error.bad_input) std::abort();
  } catch (const std::exception&) {  // a loss that is not finite, a stage that waits for what never comes
  }
  return 0;
}
