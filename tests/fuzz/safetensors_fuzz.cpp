// libFuzzer: any bytes either parse or are an error that starts with the name.
#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>

#include "thinwire/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    thinwire::checkpoint::parse_safetensors({reinterpret_cast<const char*>(data), size}, "file");
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (!text.starts_with("file: ") || text.find('\n') != text.npos) std::abort();
  }
  return 0;
}
