// Options that are declared once: defaults, ranges, help and errors come from one list (docs/base.md).
#include <fmt/format.h>

#include "thinwire/base/errors.h"
#include "thinwire/base/options.h"

using namespace thinwire;

struct CropOptions {
  int64_t width = 8;
};
template <class F>
void fields(F&& f, CropOptions& o) {
  f("width", o.width, at_least(1), "columns kept");
}

int main() {
  CropOptions o;
  read_section({{"width", int64_t{12}}}, "crop", o);
  try {
    check_fields("crop", CropOptions{.width = -1});
  } catch (const BadInput& error) {
    fmt::print("width is {}; {}\n", o.width, error.what());  // width is 12; crop.width must be at least 1, got -1
  }
}
