// Which Thinwire this is: the version that CMakeLists.txt states, like "0.1.0".
#pragma once

#include <string>

namespace thinwire {

std::string version();

}  // namespace thinwire
