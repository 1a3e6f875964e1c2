// How --help looks: arguments by the name of what they take, defaults in words, lines that fit.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

namespace thinwire::cli {

std::shared_ptr<CLI::FormatterBase> help_layout();

}  // namespace thinwire::cli
