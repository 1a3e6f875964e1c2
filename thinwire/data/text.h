// Text as bytes: a file, or every text file of a folder, with the last part of each file held out.
//
// A file given by its path is taken as it is. Of a folder, all files below it are taken whose names end in `suffix`,
// except hidden ones, those in folders named in `skip`, empty ones, and those with a NUL byte (not text).
// Instead of files, source = "synthetic" makes text up whose entropy is known (synthetic.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "thinwire/base/options.h"
#include "thinwire/base/units.h"

namespace thinwire::data {

// Options of [data].
struct DataOptions {
  std::string source = "text";  // text | synthetic
  std::string path = "";        // file or folder; empty: the sources of Python's standard library on this machine
  std::string suffix = "";      // of the files taken from a folder, ".py" for example; empty: all that hold text
  std::string skip = "";        // names of folders not entered, separated by commas
  double held_out = 0.05;       // share of each file, taken from its end
  Bytes length{1 << 20};        // of a synthetic text
  int64_t branches = 8;         // bytes that may follow a byte in it
  int64_t seed = 1;             // of it
};

template <class F>
void fields(F&& f, DataOptions& o) {
  f("source", o.source, one_of({"text", "synthetic"}),
    "where tokens come from: files, or made up with a known entropy");
  if (o.source == "synthetic") {
    f("length", o.length, any(), "of the text, like \"1MiB\"");
    f("branches", o.branches, between(1, 256), "bytes that may follow a byte; the loss floor grows with it");
    f("seed", o.seed, at_least(0), "of the text");
    f("held_out", o.held_out, above_up_to(0, 0.5), "share of the text, kept for evaluation");
    return;
  }
  f("path", o.path, any(), "file or folder; empty: the sources of Python's standard library on this machine");
  f("suffix", o.suffix, any(), "ending of the files taken from a folder, like \".py\"; empty: every text file");
  f("skip", o.skip, any(), "names of folders not entered, separated by commas, like \"test,tests\"");
  f("held_out", o.held_out, above_up_to(0, 0.5), "last part of each file, kept for evaluation");
}

// Makes the path absolute. Fills in what an empty one stands for, so that a run's recipe says what was read: the folder
// of Python's standard library, and, where they are empty too, suffix ".py" and a skip of installed packages and tests.
// BadInput if this machine has no such folder.
void resolve(DataOptions& options);

// Shared by the ranks of a process; never written after load_text().
struct Text {
  at::Tensor train, held_out;     // uint8, 1-d
  uint64_t hash = 0;              // XXH3 of both, to notice a text that changed under a checkpoint
  int64_t files = 0;              // that were read; 0: synthetic
  std::optional<double> entropy;  // nats a byte: the loss no model can beat, where it is known
};
inline constexpr int64_t kVocabulary = 256;  // tokens are bytes

// Reads (or makes) it all, files in the order of their paths. BadInput if the path is missing, unreadable or empty, or
// if either part is shorter than context + 1 bytes.
std::shared_ptr<const Text> load_text(const DataOptions& options, int64_t context);

// Rows of tokens and of what follows each token: int64 [rows, context].
struct Batch {
  at::Tensor tokens, targets;
};

// The training batch of (seed, step, replica): a pure function, every row an independent window of the training part.
Batch sample(const Text& text, uint64_t seed, int64_t step, int64_t replica, int64_t rows, int64_t context);

// Windows first, first + stride, .. of `windows` ones that are evenly spaced from the held-out part's first byte to its
// last. They overlap where the part is too short to keep them apart. No rows if first >= windows.
Batch held_out(const Text& text, int64_t windows, int64_t first, int64_t stride, int64_t context);

}  // namespace thinwire::data
