#include "thinwire/base/version.h"

namespace thinwire {

std::string version() { return THINWIRE_VERSION; }

}  // namespace thinwire
