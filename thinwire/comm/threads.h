// Ranks as threads of one process: mail that is handed over in memory.
#pragma once

#include <memory>
#include <vector>

#include "thinwire/comm/mail.h"

namespace thinwire::comm {

// One mail a rank. A wait for longer than timeout_s throws Timeout. The receiver copies the message, in its wait(), so
// that a sender is never held up.
std::vector<MailPtr> thread_mails(int size, double timeout_s);

}  // namespace thinwire::comm
