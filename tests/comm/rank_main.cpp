#include "tests/comm/rank_main.h"

#include <c10/util/Exception.h>

#include <map>

#include "thinwire/base/errors.h"

namespace thinwire::comm {
namespace {

std::map<std::string, RankMain::Function>& registry() {
  static std::map<std::string, RankMain::Function> mains;
  return mains;
}

}  // namespace

RankMain::RankMain(const std::string& name, Function function) {
  TORCH_CHECK(registry().emplace(name, std::move(function)).second, "two functions are registered as ", name);
}

const RankMain::Function& registered(const std::string& name) {
  const auto found = registry().find(name);
  TORCH_CHECK(found != registry().end(), "no function is registered as ", name);
  return found->second;
}

std::vector<std::string> run_as_threads(int size, const std::vector<std::string>& words) {
  std::vector<std::string> texts(size);
  run_threads(size, [&](World& world) {
    texts[world.rank()] = registered(words.at(0))(world, {words.begin() + 1, words.end()});
  });
  return texts;
}

Said run_rank_main(World& world, const std::vector<std::string>& words) {
  try {
    return {.text = registered(words.at(0))(world, {words.begin() + 1, words.end()})};
  } catch (const std::exception& error) {
    world.group->transport()->fail(world.rank(), one_line(error));
    return {.failed = true, .text = "error: " + one_line(error)};
  }
}

}  // namespace thinwire::comm
