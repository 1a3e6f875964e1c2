// Where each tensor lies in the flat weights: a value.
//
// The parameters of a model are one fp32 vector. Every unit of the model (embedding, block, head) starts on a boundary
// of 1024 elements, in every run, so that slices, stages and shards are whole blocks and no number moves when their
// count changes. The padding between units is zero, stays zero, and is left out of hashes and scales.
//
// A layout is made once (make_layout) and copied freely; its functions are pure and may be called from any
// thread. It holds no numbers: those are in optim::Flat, or in any vector of `numel` elements.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "thinwire/kernels/range.h"

namespace thinwire::optim {

using kernels::kBlock;

// What these flat weights hold of one parameter: all of it, unless a replica is sharded.
struct Piece {
  int64_t at, numel;       // elements of the flat vector
  int tensor;              // which parameter, in registration order
  int group;               // which learning rate and weight decay
  int64_t offset = 0;      // of its first element in the parameter
  bool duplicate = false;  // another rank of the replica holds the same numbers, and norms of the whole include those
  kernels::Range range() const { return {at, numel}; }
};

// Parameters that share a learning rate (Update::lr) and a weight decay.
struct ParameterGroup {
  double weight_decay = 1;  // times the rule's
};
// make_layout()'s groups: matrices decay, vectors (norms, biases) do not.
enum DefaultGroup : int { kDecayed = 0, kUndecayed = 1 };

// A weight matrix of a hidden layer: rows x columns numbers in a row. What is one parameter may be several of them.
struct Matrix {
  int64_t at, rows, columns;
  int group = kDecayed;
};

// Blocks [first, first + count) of the whole model.
struct BlockRange {
  int64_t first = 0, count = 0;
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

// One rank's flat weights.
struct Layout {
  int64_t numel = 0;                    // a whole number of blocks
  std::vector<BlockRange> ranges = {};  // of the whole model, that lie here one after another: one, or one a unit
  std::vector<Piece> pieces = {};       // ascending
  int64_t tensors = 0;                  // parameters of the whole model: numbers by tensor are so many on every shard
  std::vector<ParameterGroup> groups = {{.weight_decay = 1}, {.weight_decay = 0}};
  std::vector<std::string> names = {};     // of the parameters, for messages; may be empty
  std::vector<Matrix> matrices = {};       // those that rules for matrices (muon) may treat as such
  at::TensorOptions options = at::kFloat;  // of flat vectors: fp32, on the device the parameters are on
};

// The layout of a whole model (or of one stage of it): units in order, each on a block boundary, its parameters one
// after another. Parameters are on one device. Depends on their shapes alone.
Layout make_layout(const std::vector<std::vector<at::Tensor>>& units);

// Sum of squares in fp64 of what belongs to parameters, duplicates left out.
double sum_squares(const Layout& layout, const at::Tensor& flat);

// Ranges of one group, neighbours joined over the padding between them: what a rule without norms loops over.
struct Span {
  int64_t at, numel;
  int group;
  kernels::Range range() const { return {at, numel}; }
};
std::vector<Span> spans(const Layout& layout);

// How many elements of each block belong to parameters, from the block's beginning; the rest is padding. int32.
at::Tensor valid_counts(const Layout& layout);

// Where element i belongs, for messages: "element 7 of head.bias".
std::string place_in(const Layout& layout, int64_t i);

}  // namespace thinwire::optim
