// Text from files and file names, made fit for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace thinwire {

// Control characters (escape codes among them), their C1 twins and bytes that are no UTF-8 become '?'. Tabs too; a line
// stays a line.
std::string printable(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace thinwire
