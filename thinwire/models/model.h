// What is trained: a list of units (embedding, blocks, head), each with a forward of its own. Pipeline stages are
// consecutive units, and sharded weights are gathered unit by unit.
//
// Parameters are plain tensors that require a gradient; a trainer makes them views of one flat buffer
// (thinwire/optim/flat.h). Nothing here uses torch's default generator, and a forward is deterministic: a stage
// computes it twice. A model is used by one thread at a time. To add one: a make_NAME() beside gpt.h, its name in
// fields() and in make_model(); examples/own_model.cpp shows a model of your own without any of this.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/options.h"

namespace thinwire::models {

struct Parameter {
  std::string name;      // unique in the model: "blocks.3.attention.qkv"
  at::Tensor tensor;     // fp32, requires_grad, a leaf
  int64_t matrices = 0;  // weight matrices between embedding and head that it holds, stacked by rows: 3 for q, k, v
};

// A part of a model that is never divided between stages.
class Unit {
 public:
  virtual ~Unit() = default;
  // The output of the unit before (or tokens) to this one's. Must not change x, or keep state between calls.
  virtual at::Tensor forward(const at::Tensor& x) = 0;
  // About how many multiplications a token takes in it: for balancing stages. Unless a unit knows better, one for each
  // number in its parameters.
  virtual int64_t work(int64_t context) const;
  std::vector<Parameter> parameters;  // in registration order; a tied weight is listed by its first owner only
};

class Model {
 public:
  std::vector<std::unique_ptr<Unit>> units;
  at::Tensor tied;  // a matrix that the first unit lists and the last uses as well; undefined where there is none

  at::Tensor forward(const at::Tensor& tokens_BT);                             // logits_BTV
  at::Tensor loss(const at::Tensor& tokens_BT, const at::Tensor& targets_BT);  // cross entropy
  int64_t numel() const;                                                       // parameters in all
};

// Mean, in nats a token and fp32.
at::Tensor cross_entropy(const at::Tensor& logits_BTV, const at::Tensor& targets_BT);

// The parameters' tensors, unit by unit: what flat weights (thinwire/optim/flat.h) are made from.
std::vector<std::vector<at::Tensor>> parameters_by_unit(const Model& model);

// Options of [model]. `size` names a set of numbers; numbers given beside it win.
struct ModelOptions {
  std::string name = "gpt";   // gpt | mlp
  std::string size = "nano";  // see kSizes in model.cpp
  int64_t layers = 2;         // >= 1
  int64_t width = 64;         // a multiple of heads
  int64_t heads = 2;          // >= 1; gpt only
  int64_t context = 64;       // tokens a sequence
  bool tied = false;          // head uses the embedding's matrix
};

// Sets layers, width and heads to those of a named size.
void apply_size(ModelOptions& options);
std::vector<std::string> size_names();

template <class F>
void fields(F&& f, ModelOptions& o) {
  f("name", o.name, one_of({"gpt", "mlp"}), "what is trained");
  const std::string before = o.size;
  f("size", o.size, one_of(size_names()), "layers, width and heads by name; keys given beside it win");
  if (o.size != before) apply_size(o);
  f("layers", o.layers, between(1, 10000), "blocks between embedding and head");
  f("width", o.width, between(1, 1 << 20), "features of a token inside the model; a multiple of heads");
  f("heads", o.heads, between(1, 1 << 20), "attention heads (gpt)");
  f("context", o.context, between(1, 1 << 20), "tokens a sequence");
  f("tied", o.tied, any(), "the head uses the embedding's matrix");
}

// What random weights are drawn from; without one a model has shapes and no numbers (meta tensors), and takes no
// memory.
using Seed = std::optional<uint64_t>;

// A freshly initialised model: the same (options, seed) give the same bits. `vocabulary` is the number of tokens.
// BadInput for numbers that do not fit together (width not a multiple of heads).
std::unique_ptr<Model> make_model(const ModelOptions& options, int64_t vocabulary, Seed seed);

}  // namespace thinwire::models
