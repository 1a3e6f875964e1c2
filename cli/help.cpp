#include "cli/help.h"

#include <fmt/format.h>

#include <sstream>

namespace thinwire::cli {
namespace {

constexpr size_t kColumn = 26;  // where the second column starts
constexpr size_t kWidth = 100;

// `left`, then `right` in the second column, broken between words.
std::string two_columns(const std::string& left, const std::string& right) {
  std::string out = "  " + left, line;
  out += out.size() + 2 > kColumn ? "\n" + std::string(kColumn, ' ') : std::string(kColumn - out.size(), ' ');
  std::istringstream words(right);
  for (std::string word; words >> word;) {
    if (!line.empty() && kColumn + line.size() + 1 + word.size() > kWidth) {
      out += line + "\n" + std::string(kColumn, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

class Layout final : public CLI::Formatter {
 public:
  Layout() {
    label("Positionals", "Arguments");
    label("SUBCOMMAND", "VERB");
    label("SUBCOMMANDS", "VERBS");
  }

  std::string make_description(const CLI::App* app) const override {
    const std::string name =
        app->get_parent() ? fmt::format("{} {}: ", app->get_parent()->get_name(), app->get_name()) : "";
    return name + app->get_description() + "\n\n";
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string left = is_positional ? takes(option) : option->get_name(false, true);
    if (const size_t comma = left.find(",--"); comma != std::string::npos) left.insert(comma + 1, " ");  // -h, --help
    if (!is_positional && !takes(option).empty()) left += " " + takes(option);
    std::string right = option->get_description();
    if (!option->get_default_str().empty()) right += fmt::format(" (default: {})", option->get_default_str());
    return two_columns(left, right);
  }

  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string name = takes(option) + (option->get_items_expected_max() > 1 ? "..." : "");
    return option->get_required() ? name : "[" + name + "]";
  }

  std::string make_subcommand(const CLI::App* verb) const override {
    return two_columns(verb->get_name(), verb->get_description());
  }

 private:
  // What an option wants to be given: RUN, N, TEXT. Flags want nothing.
  static std::string takes(const CLI::Option* option) {
    return option->get_items_expected_max() == 0 ? "" : option->get_type_name();
  }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_layout() { return std::make_shared<Layout>(); }

}  // namespace thinwire::cli
