// Plays cases through Thinwire's 1-bit strategies: peers_one_bit_replay CASE...
//
// A case is a folder (peers/cases.py says what is in it). Its workers are threads; the weights of worker 0 after every
// step go to thinwire.f32, [steps][elements], without the padding of the flat weights.
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/base/errors.h"
#include "thinwire/comm/world.h"
#include "thinwire/dp/catalog.h"
#include "thinwire/optim/catalog.h"
#include "thinwire/optim/flat.h"

using namespace thinwire;
namespace fs = std::filesystem;

namespace {

struct Case {
  dp::StrategyOptions strategy;
  optim::OptimOptions optim;
  int workers = 0;
  int64_t steps = 0, numel = 0;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<double> lr;      // by step
  std::vector<float> weights;  // [numel]
  std::vector<float> grads;    // [steps][workers][numel]
};

std::vector<float> read_floats(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw BadInput("{} cannot be read", path.string());
  std::vector<float> numbers(static_cast<size_t>(file.tellg()) / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(numbers.data()), static_cast<std::streamsize>(numbers.size() * sizeof(float)));
  return numbers;
}

Case read_case(const fs::path& folder) {
  std::ifstream file(folder / "case.json");
  if (!file) throw BadInput("{} cannot be read", (folder / "case.json").string());
  const auto json = nlohmann::json::parse(file);
  Case c;
  c.workers = json.at("workers");
  c.steps = json.at("steps");
  c.shapes = json.at("shapes").get<std::vector<std::vector<int64_t>>>();
  c.lr = json.at("lr").get<std::vector<double>>();

  c.strategy = dp::preset(json.at("optimizer").get<std::string>());
  c.strategy.one_bit.mode = "deepspeed";
  c.strategy.one_bit.freeze.automatic = false;
  c.strategy.one_bit.freeze.step = json.at("freeze");
  if (c.strategy.name == "zero_one_adam") {
    c.strategy.zero_one.var_update_scaler = json.at("var_update_scaler");
    c.strategy.zero_one.local_step_scaler = json.at("local_step_scaler");
    c.strategy.zero_one.local_step_clipper = json.at("local_step_clipper");
  }
  c.optim.lr = c.lr.at(0);
  c.optim.betas = json.at("betas").get<std::array<double, 2>>();
  c.optim.eps = json.at("eps");
  c.optim.weight_decay = json.at("weight_decay");
  c.optim.bias_correction = false;
  c.optim.clip = std::numeric_limits<double>::infinity();

  c.weights = read_floats(folder / "weights.f32");
  c.grads = read_floats(folder / "grads.f32");
  c.numel = static_cast<int64_t>(c.weights.size());
  int64_t wanted = 0;
  for (const auto& shape : c.shapes) {
    int64_t numel = 1;
    for (const int64_t size : shape) numel *= size;
    wanted += numel;
  }
  if (c.numel != wanted || static_cast<int64_t>(c.grads.size()) != c.steps * c.workers * wanted ||
      static_cast<int64_t>(c.lr.size()) != c.steps)
    throw BadInput("{}: the files are not as long as case.json says", folder.string());
  return c;
}

// All tensors are one unit, so no padding comes between them.
optim::Flat make_flat(Case& c) {
  std::vector<at::Tensor> tensors;
  float* from = c.weights.data();
  for (const auto& shape : c.shapes) {
    tensors.push_back(at::from_blob(from, shape, at::kFloat).clone());
    from += tensors.back().numel();
  }
  return optim::Flat({tensors});
}

// Pieces are in the order of the tensors, as the numbers of a case are.
void scatter(const float* numbers, const optim::Layout& layout, at::Tensor flat) {
  flat.zero_();
  for (const optim::Piece& piece : layout.pieces) {
    std::copy_n(numbers, piece.numel, flat.mutable_data_ptr<float>() + piece.at);
    numbers += piece.numel;
  }
}

void gather(const at::Tensor& flat, const optim::Layout& layout, float* numbers) {
  for (const optim::Piece& piece : layout.pieces)
    numbers = std::copy_n(flat.const_data_ptr<float>() + piece.at, piece.numel, numbers);
}

void play(const fs::path& folder) {
  Case c = read_case(folder);
  std::vector<float> played(static_cast<size_t>(c.steps * c.numel));
  comm::run_world(c.workers, [&](std::shared_ptr<comm::TransportGroup> group) {
    optim::Flat flat = make_flat(c);
    auto strategy = dp::make_strategy(c.strategy, flat, {.sync = group}, c.optim);
    for (int64_t t = 1; t <= c.steps; ++t) {
      scatter(c.grads.data() + ((t - 1) * c.workers + group->rank()) * c.numel, flat.layout(), flat.grad);
      const std::vector<double> lr = {c.lr[t - 1], c.lr[t - 1]};
      strategy->step({.x = flat.x, .next = flat.x, .grad = flat.grad, .lr = lr, .t = t});
      if (group->rank() == 0) gather(flat.x, flat.layout(), played.data() + (t - 1) * c.numel);
    }
  });
  std::ofstream file(folder / "thinwire.f32", std::ios::binary);
  file.write(reinterpret_cast<const char*>(played.data()), static_cast<std::streamsize>(played.size() * sizeof(float)));
  file.close();
  if (!file) throw BadInput("{} cannot be written", (folder / "thinwire.f32").string());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    for (int i = 1; i < argc; ++i) play(argv[i]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "peers_one_bit_replay: {}\n", one_line(error));
    return 1;
  }
}
