// What a rank says of itself when it joins a world of processes.
#pragma once

#include <string>

namespace thinwire::comm {

struct Identity {
  std::string host = {};   // for errors
  std::string build = {};  // versions of what ranks must have in common: one whose differs is lost, by name
};

}  // namespace thinwire::comm
