// Muon: the momentum of a weight matrix, orthogonalised; equal to torch.optim.Muon with "match_rms_adamw".
//
//   b = mu b + (1-mu) g;   u = mu b + (1-mu) g                         Nesterov
//   X = u / ||u||, five times: A = X X^T, X = 3.4445 X + (-4.7750 A + 2.0315 A A) X     about U V^T of u's SVD
//   x = x (1 - lr wd) - 0.2 sqrt(max(rows, columns)) lr X               a step as large as AdamW's
//
// for the matrices of the layout (those between embedding and head; q, k and v are three). The rest is AdamW or NAdamW
// at the same learning rate. Memory: b, or the rest's first moment; the second moment of the rest only.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "thinwire/optim/adamw.h"
#include "thinwire/optim/nadamw.h"

namespace thinwire::optim {

struct MuonOptions {
  double momentum = 0.95;                       // mu, [0, 1)
  double weight_decay = 0.1;                    // of matrices, times lr
  at::ScalarType ns_dtype = at::kFloat;         // of the iteration: bf16 is what torch's uses, and fast on a GPU
  AdamwOptions adamw = {.betas = {0.9, 0.99}};  // of everything else; or
  std::optional<NadamwOptions> nadamw = {};
};

// The iteration is a handful of matrix products per matrix, in ns_dtype, on the device the weights are on; the result
// depends on nothing but them. Needs whole matrices: not for sharded tensors.
class Muon final : public Rule {
 public:
  Muon(const Layout& layout, const MuonOptions& options);
  void apply(const Update& update) override;
  State state() override;
  void load(const State& state) override;

 private:
  void apply_rest(const Update& update);
  struct Scratch {
    at::Tensor start;    // rows x columns
    at::Tensor x, next;  // lying on the longer side
    at::Tensor gram, update;
  };
  at::Tensor orthogonalised(const at::Tensor& u);
  Scratch& scratch(int64_t rows, int64_t columns);

  const std::vector<Matrix> matrices_;
  const std::vector<Span> others_;
  const std::vector<ParameterGroup> groups_;
  const MuonOptions options_;
  std::optional<NadamwRates> rates_;  // where the rest is NAdamW
  at::Tensor m_, v_;                  // v_ holds the others only, packed
  at::Tensor u_;
  std::map<std::pair<int64_t, int64_t>, Scratch> scratch_;
};

}  // namespace thinwire::optim
