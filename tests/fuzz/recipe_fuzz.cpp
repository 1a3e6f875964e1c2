// libFuzzer: any text is a recipe that survives being written down, or BadInput.
#include <cstdlib>
#include <string_view>

#include "thinwire/base/errors.h"
#include "thinwire/train/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thinwire;
  try {
    const auto recipe = train::make_recipe(train::parse_recipe({reinterpret_cast<const char*>(data), size}, "file"));
    const auto again = train::make_recipe(train::parse_recipe(to_toml(recipe), "file"));
    if (first_difference(recipe, again)) std::abort();
  } catch (const BadInput&) {
  }
  return 0;
}
