#include "thinwire/net/link.h"

#include "thinwire/base/errors.h"
#include "thinwire/base/units.h"

namespace thinwire::net {

void from_text(std::string_view text, Link& out) {
  if (text == "none") {
    out = {};
    return;
  }
  const size_t slash = text.find('/');
  Link link;
  link.rate = parse_rate(text.substr(0, slash));
  if (link.rate <= 0) throw BadInput("a link needs a rate above 0, got \"{}\"", text);
  if (slash != std::string_view::npos) link.latency = parse_seconds(text.substr(slash + 1));
  out = link;
}

std::string to_text(const Link& link) {
  if (link.none()) return "none";
  const std::string rate = rate_text(link.rate);
  return link.latency == 0 ? rate : rate + "/" + seconds_text(link.latency);
}

}  // namespace thinwire::net
