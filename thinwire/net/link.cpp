#include "thinwire/net/link.h"

#include <cmath>

#include "thinwire/base/errors.h"
#include "thinwire/base/units.h"

namespace thinwire::net {

void from_text(std::string_view text, Link& out) {
  const size_t slash = text.find('/');
  const std::string_view rate = text.substr(0, slash);
  Link link;
  if (rate != "none") link.rate = parse_rate(rate);
  if (link.rate <= 0) throw BadInput("a link needs a rate above 0, got \"{}\"", text);
  if (slash != std::string_view::npos) link.latency = parse_seconds(text.substr(slash + 1));
  out = link;
}

std::string to_text(const Link& link) {
  const std::string rate = std::isinf(link.rate) ? "none" : rate_text(link.rate);
  return link.latency == 0 ? rate : rate + "/" + seconds_text(link.latency);
}

}  // namespace thinwire::net
