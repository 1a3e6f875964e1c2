// The safetensors file format: 8 bytes of header length, a JSON header of names, types, shapes and offsets, the bytes.
// (huggingface/safetensors, format of 2023.) Files written here can be opened by any safetensors reader.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::checkpoint {

// A whole file to disk and back. Writing replaces the file, flushes it to disk, and says how long it is and the XXH3 of
// what was meant to be in it. Both throw std::system_error with the path if a byte could not be written or read.
struct Written {
  int64_t bytes = 0;
  uint64_t xxh3 = 0;
};
Written write_bytes(const std::filesystem::path& path, const std::vector<std::string_view>& parts);
std::string read_bytes(const std::filesystem::path& path);

// Writes tensors in the order of their names; they may be strided views and on any device.
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
