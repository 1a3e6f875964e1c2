// Ranks as threads of one process: messages are handed over in memory.
#pragma once

#include <vector>

#include "thinwire/comm/transport.h"

namespace thinwire::comm {

// One transport a rank. A wait for longer than timeout_s throws Timeout. The receiver copies the message, in its
// wait(), so that a sender is never held up.
std::vector<TransportPtr> thread_transports(int size, double timeout_s);

}  // namespace thinwire::comm
