// Ranks as threads of one process: the transport that needs no network. A message is a pointer handed over in memory;
// the only copy is the receiver's.
#pragma once

#include <vector>

#include "thinwire/comm/transport.h"

namespace thinwire::comm {

// One transport a rank, to be used by that rank's threads. A wait for longer than timeout_s throws Timeout. The
// receiver copies the message, in its wait(), so that a sender never blocks. A rank whose transport is destroyed has
// ended well, unless fail() was called for it.
std::vector<TransportPtr> thread_transports(int size, double timeout_s);

}  // namespace thinwire::comm
