// What a rank says of itself when it joins a world of processes.
#pragma once

#include <string>

namespace thinwire::comm {

// Checked when ranks join: different builds must not train together, since their bits may differ.
struct Identity {
  std::string host = {};   // for errors
  std::string build = {};  // versions of what ranks must have in common: one whose differs is lost, by name
};

}  // namespace thinwire::comm
