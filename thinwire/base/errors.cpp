#include "thinwire/base/errors.h"

#include <c10/util/Exception.h>

#include "thinwire/base/printable.h"

namespace thinwire {

std::string one_line(const std::exception& error) {
  auto* torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch ? torch->what_without_backtrace() : error.what();
  return printable(std::string_view(text).substr(0, text.find('\n')));
}

}  // namespace thinwire
