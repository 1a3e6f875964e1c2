// The safetensors file format: 8 bytes of header length, a JSON header of names, types, shapes and offsets, the bytes.
// (huggingface/safetensors, format of 2023.) Files written here can be opened by any safetensors reader.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "thinwire/base/atomic_file.h"

namespace thinwire::checkpoint {

// Writes tensors in the order of their names, by write_file(); they may be strided views and on any device.
Written write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                          const std::map<std::string, std::string>& metadata = {});

struct Safetensors {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};
// Reads a whole file; its bytes are untrusted. Throws an error that starts with the path and says what is wrong.
Safetensors read_safetensors(const std::filesystem::path& path);
// The same from memory (what a fuzzer calls); `name` stands in for the path.
Safetensors parse_safetensors(const std::string& bytes, const std::string& name);

}  // namespace thinwire::checkpoint
