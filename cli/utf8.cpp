#include "cli/utf8.h"

#include <utility>

namespace thinwire::cli {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

size_t length_of(unsigned char first) { return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4; }

}  // namespace

std::string Utf8Repair::operator()(std::string_view bytes) {
  std::string out;
  for (char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (begun_.empty()) {
      begin(byte, out);
    } else if (goes_on(byte)) {
      begun_ += c;
      if (begun_.size() < length_of(static_cast<unsigned char>(begun_[0]))) continue;
      const bool control = begun_[0] == '\xC2' && byte < 0xA0;
      out += control ? kReplacement : begun_;
      begun_.clear();
    } else {
      out += kReplacement;
      begun_.clear();
      begin(byte, out);
    }
  }
  return out;
}

std::string Utf8Repair::rest() { return std::exchange(begun_, "").empty() ? "" : kReplacement; }

void Utf8Repair::begin(unsigned char byte, std::string& out) {
  const bool plain = (byte >= 0x20 && byte < 0x7F) || byte == '\n' || byte == '\t';
  if (plain)
    out += static_cast<char>(byte);
  else if (byte >= 0xC2 && byte <= 0xF4)
    begun_ = static_cast<char>(byte);
  else
    out += kReplacement;
}

// The second byte is narrower after some first ones: no overlong forms, no surrogates, nothing above U+10FFFF.
bool Utf8Repair::goes_on(unsigned char byte) const {
  unsigned char low = 0x80, high = 0xBF;
  if (begun_.size() == 1) switch (static_cast<unsigned char>(begun_[0])) {
      case 0xE0:
        low = 0xA0;
        break;
      case 0xED:
        high = 0x9F;
        break;
      case 0xF0:
        low = 0x90;
        break;
      case 0xF4:
        high = 0x8F;
        break;
    }
  return byte >= low && byte <= high;
}

}  // namespace thinwire::cli
