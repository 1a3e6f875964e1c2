#include "thinwire/report/bars.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/report/axis.h"
#include "thinwire/report/text.h"

namespace thinwire::report {
namespace {

constexpr double kPitch = 48, kBar = 20;

double seconds(const TimeBar& bar) { return bar.compute_s + bar.exposed_s + bar.other_s; }

}  // namespace

double bars_height(size_t bars) { return kPitch * static_cast<double>(bars) + 4; }

std::string bars_svg(const std::vector<TimeBar>& bars, const std::string& title, Size size) {
  double longest = 1e-9;
  for (const auto& bar : bars) longest = std::max(longest, seconds(bar));
  const Scale x(0, longest, 0, size.width, false);
  std::string svg = fmt::format(R"(<svg class="bars" viewBox="0 0 {} {}" role="img"><title>{}</title>)", size.width,
                                size.height, escaped(title));
  double top = 0;
  for (const auto& bar : bars) {
    svg += fmt::format(R"(<text class="barname" x="0" y="{}">{}</text>)", top + 14, escaped(bar.label));
    svg += fmt::format(R"(<text class="bartotal" x="{}" y="{}" text-anchor="end">{} waiting of {}</text>)", size.width,
                       top + 14, time_text(bar.exposed_s), time_text(seconds(bar)));
    double from = 0;
    struct Part {
      const char *kind, *name;
      double seconds;
    };
    for (const Part& part :
         {Part{"compute", "computing", bar.compute_s}, Part{"wait", "waiting for the wire", bar.exposed_s},
          Part{"other", "other", bar.other_s}}) {
      const double width = x(from + part.seconds) - x(from);
      const std::string share = percent_text(part.seconds / seconds(bar));
      if (width > 0.2)
        svg +=
            fmt::format(R"(<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}" data-tip="{}"/>)", part.kind,
                        x(from), top + 20, width, kBar,
                        escaped(fmt::format("{} {}: {} ({})", bar.label, part.name, time_text(part.seconds), share)));
      if (width > 40)
        svg += fmt::format(R"(<text class="share on-{}" x="{:.1f}" y="{}">{}</text>)", part.kind, x(from) + 8,
                           top + 34.5, share);
      from += part.seconds;
    }
    top += kPitch;
  }
  return svg + "</svg>";
}

}  // namespace thinwire::report
