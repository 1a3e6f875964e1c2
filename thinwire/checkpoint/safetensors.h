// The safetensors file format: 8 bytes of header length, a JSON header of names, types, shapes and offsets, the bytes.
// (huggingface/safetensors, format of 2023.) Files written here can be opened by any safetensors reader, and files of
// others can be read if their types are among torch's: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL.
//
// All functions may be called from any thread; they share nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "thinwire/base/atomic_file.h"

namespace thinwire::checkpoint {

// Writes tensors in the order of their names, by write_file(): the file is whole or not there, and equal tensors give
// equal bytes. Tensors may be strided views and on any device. Returns what was written, for a manifest.
Written write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                          const std::map<std::string, std::string>& metadata = {});

// What a file holds. Tensors are on the CPU, contiguous, and own their memory.
struct Safetensors {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};
// Reads a whole file; its bytes are untrusted: header length, nesting, names, types, shapes and offsets are checked
// before memory is allocated for them, and no byte may belong to two tensors or to none. Throws an error that starts
// with the path and says what is wrong.
Safetensors read_safetensors(const std::filesystem::path& path);
// The same from memory (what a fuzzer calls); `name` stands in for the path.
Safetensors parse_safetensors(const std::string& bytes, const std::string& name);

}  // namespace thinwire::checkpoint
