#include "thinwire/train/version.h"

namespace thinwire::train {

std::string version() { return THINWIRE_VERSION; }

}  // namespace thinwire::train
