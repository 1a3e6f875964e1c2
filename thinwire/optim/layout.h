// Where each tensor lies in the flat weights: a value.
//
// The parameters of a model are one fp32 vector. Every unit of the model (embedding, block, head) starts on a boundary
// of 1024 elements, in every run, so that shards, slices and stages can be cut later without moving anything. The
// padding between units is zero, stays zero, and is left out of hashes and scales.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace thinwire::optim {

inline constexpr int64_t kBlock = 1024;

struct Piece {
  int64_t at, numel;  // elements of the flat vector
  int tensor;         // which parameter, in registration order
  int group;          // which learning rate and weight decay
};

// Groups as they are used here: matrices decay, vectors (norms, biases) do not.
enum Group : int { kDecayed = 0, kUndecayed = 1 };
inline constexpr int kGroups = 2;

// A weight matrix of a hidden layer: rows x columns numbers in a row. What is one parameter may be several of them.
struct Matrix {
  int64_t at, rows, columns;
};

struct Layout {
  int64_t first_block = 0;  // of what this rank holds
  int64_t numel = 0;        // a whole number of blocks
  std::vector<Piece> pieces = {};
  std::vector<std::string> names = {};  // of the parameters, for messages; may be empty
  std::vector<Matrix> matrices = {};    // those that rules for matrices (muon) may treat as such
};

Layout make_layout(const std::vector<std::vector<at::Tensor>>& units);

// Stretches of one group, neighbours joined over the padding between them.
struct Span {
  int64_t at, numel;
  int group;
};
std::vector<Span> spans(const Layout& layout);

// How many elements of each block belong to parameters, from the block's beginning; the rest is padding.
std::vector<int32_t> filled_blocks(const Layout& layout);

// Where element i belongs, for messages: "element 7 of head.bias".
std::string place_in(const Layout& layout, int64_t i);

}  // namespace thinwire::optim
