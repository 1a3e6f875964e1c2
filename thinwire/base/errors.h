// The two failures a caller is meant to distinguish by type. (A lost or late peer is the third:
// thinwire/comm/errors.h.)
//
//   BadInput   the person asked for something that cannot be: an unknown key, a wrong unit, a missing file.
//              The program answers with one line on stderr and exit code 2.
//   anything else that is thrown (c10::Error from TORCH_CHECK, std::system_error ...) is a failure: exit code 1.
#pragma once

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <string>

namespace thinwire {

// Takes a fmt format string and its arguments. Say what was wanted and what came: "train.steps must be at least 1, got
// 0".
struct BadInput : std::runtime_error {
  using std::runtime_error::runtime_error;
  template <class... Args>
  explicit BadInput(fmt::format_string<Args...> text, Args&&... args)
      : std::runtime_error(fmt::format(text, std::forward<Args>(args)...)) {}
};

// What a person should read of an exception: one line, without LibTorch's backtrace, fit for a terminal
// (printable.h).
std::string one_line(const std::exception& error);

}  // namespace thinwire
