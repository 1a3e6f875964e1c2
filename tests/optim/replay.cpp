// Twenty steps of a rule on numbers that tests/replay.py can make as well; prints the weights' bits, one a line.
//   optim_replay KEY=VALUE...     of the [optim] section: name=muon ns_dtype=bfloat16
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>

#include "thinwire/optim/catalog.h"
#include "thinwire/optim/flat.h"

using namespace thinwire;
using namespace thinwire::optim;

namespace {

// In [-1, 1], the same on both sides: a quotient of small whole numbers.
void fill(const at::Tensor& x, int64_t salt) {
  float* p = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i)
    p[i] = static_cast<float>(static_cast<double>((i * 7919 + salt * 104729) % 2003) / 1001 - 1);
}

Value value(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return *end ? Value(text) : Value(number);
}

}  // namespace

int main(int argc, char** argv) {
  Table table{{"lr", 0.02}, {"clip", std::numeric_limits<double>::infinity()}};
  for (const std::string setting : std::span(argv, argc).subspan(1)) {
    const size_t equals = setting.find('=');
    table[setting.substr(0, equals)] = value(setting.substr(equals + 1));
  }
  OptimOptions options;
  read_section(table, "optim", options);

  std::vector<at::Tensor> parameters;
  for (std::vector<int64_t> shape : {std::vector<int64_t>{20, 16}, {48, 64}, {64, 48}, {96, 32}, {40}}) {
    parameters.push_back(at::empty(shape));
    fill(parameters.back(), std::ssize(parameters));
  }
  Flat flat({{parameters[0]}, {parameters[1], parameters[2], parameters[3]}, {parameters[4]}},
            {.matrices = {0, 1, 1, 3, 0}});
  const RulePtr rule = make_rule(options, flat.layout());
  for (int64_t t = 1; t <= 20; ++t) {
    for (size_t i = 0; i < parameters.size(); ++i)
      fill(flat.parameters()[i].grad(), 100 * t + static_cast<int64_t>(i) + 1);
    rule->apply({.x = flat.x, .next = flat.x, .grad = flat.grad, .lr = std::array{options.lr, options.lr}, .t = t});
  }
  for (const auto& parameter : flat.parameters())
    for (int64_t i = 0; i < parameter.numel(); ++i)
      fmt::print("{:08x}\n", std::bit_cast<uint32_t>(parameter.const_data_ptr<float>()[i]));
}
