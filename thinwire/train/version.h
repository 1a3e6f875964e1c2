// Which Thinwire this is.
#pragma once

#include <string>

namespace thinwire::train {

std::string version();

}  // namespace thinwire::train
