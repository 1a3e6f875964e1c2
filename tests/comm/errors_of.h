// What a call throws, as text.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>

#include "thinwire/comm/errors.h"

namespace thinwire::comm {

inline std::string error_of(const std::function<void()>& wait) {
  try {
    wait();
    return "no error";
  } catch (const PeerLost& lost) {
    return fmt::format("PeerLost {}: {}", lost.rank, lost.what());
  } catch (const Timeout& late) {
    return fmt::format("Timeout {}: {}", late.rank, late.what());
  }
}

// What is over stays over.
inline std::string error_each_time(const std::function<void()>& wait) {
  const std::string first = error_of(wait), second = error_of(wait);
  return first == second ? first : first + ", then " + second;
}

}  // namespace thinwire::comm
