// Bytes as a terminal can show them, as they come: what is not UTF-8, and control characters other than tab and line
// break, become the replacement character U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace thinwire::cli {

class Utf8Repair {
 public:
  std::string operator()(std::string_view bytes);  // a character comes out with its last byte
  std::string rest();                              // for a character that was never finished

 private:
  void begin(unsigned char byte, std::string& out);
  bool goes_on(unsigned char byte) const;

  std::string begun_;
};

}  // namespace thinwire::cli
