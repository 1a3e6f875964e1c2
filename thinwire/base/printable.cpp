#include "thinwire/base/printable.h"

#include <cstdint>

namespace thinwire {
namespace {

// Bytes of the character at the beginning of `text`, 0 if there is none in UTF-8: too long a form, a surrogate, beyond
// U+10FFFF and cut off are none.
size_t length_of_first(std::string_view text, uint32_t& code) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const size_t length = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  code = length == 1 ? first : first & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = (code << 6) | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
  return length;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    uint32_t code = 0;
    const size_t length = length_of_first(text, code);
    const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    if (length == 0 || control)
      shown += '?';
    else
      shown += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

bool is_utf8(std::string_view text) {
  uint32_t code = 0;
  for (size_t length; !text.empty(); text.remove_prefix(length))
    if ((length = length_of_first(text, code)) == 0) return false;
  return true;
}

}  // namespace thinwire
