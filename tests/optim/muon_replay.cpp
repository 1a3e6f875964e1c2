// Twenty steps of muon on numbers that tests/muon_test.py can make as well; prints the weights' bits, one a line.
//   muon_replay float32|bfloat16
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <bit>
#include <cstdint>

#include "thinwire/optim/flat.h"
#include "thinwire/optim/muon.h"

using namespace thinwire::optim;

namespace {

// In [-1, 1], the same on both sides: a quotient of small whole numbers.
void fill(const at::Tensor& x, int64_t salt) {
  float* p = x.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); ++i)
    p[i] = static_cast<float>(static_cast<double>((i * 7919 + salt * 104729) % 2003) / 1001 - 1);
}

}  // namespace

int main(int argc, char** argv) {
  const bool bf16 = argc > 1 && std::string_view(argv[1]) == "bfloat16";
  std::vector<at::Tensor> parameters;
  for (std::vector<int64_t> shape : {std::vector<int64_t>{20, 16}, {48, 64}, {64, 48}, {96, 32}, {40}}) {
    parameters.push_back(at::empty(shape));
    fill(parameters.back(), std::ssize(parameters));
  }
  Flat flat({{parameters[0]}, {parameters[1], parameters[2], parameters[3]}, {parameters[4]}},
            {.matrices = {0, 1, 1, 3, 0}});
  Muon muon(flat.layout(), {.ns_dtype = bf16 ? at::kBFloat16 : at::kFloat});
  for (int64_t t = 1; t <= 20; ++t) {
    for (size_t i = 0; i < parameters.size(); ++i)
      fill(flat.parameters()[i].grad(), 100 * t + static_cast<int64_t>(i) + 1);
    muon.apply({.x = flat.x, .next = flat.x, .grad = flat.grad, .lr = std::array{0.02, 0.02}, .t = t});
  }
  for (const auto& parameter : flat.parameters())
    for (int64_t i = 0; i < parameter.numel(); ++i)
      fmt::print("{:08x}\n", std::bit_cast<uint32_t>(parameter.const_data_ptr<float>()[i]));
}
