#include "thinwire/net/link.h"

#include <algorithm>
#include <cmath>

#include "thinwire/base/errors.h"
#include "thinwire/base/units.h"

namespace thinwire::net {
namespace {

struct Rates {
  double up = kUnlimited, down = kUnlimited;
};

double parse_one(std::string_view text, std::string_view whole) {
  if (text == "none") return kUnlimited;
  const double rate = parse_rate(text);
  if (rate <= 0) throw BadInput("a link needs a rate above 0, got \"{}\"", whole);
  return rate;
}

Rates parse_rates(std::string_view text, std::string_view whole) {
  const size_t colon = text.find(':');
  Rates rates{.up = parse_one(text.substr(0, colon), whole)};
  if (colon != std::string_view::npos) rates.down = parse_one(text.substr(colon + 1), whole);
  return rates;
}

// "at 5s 10mbit" or "at 8s down 2s"
Event parse_event(std::string_view text, std::string_view whole) {
  auto word = [&] {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    const std::string_view first = text.substr(0, text.find(' '));
    text.remove_prefix(first.size());
    return first;
  };
  if (word() != "at") throw BadInput("\"{}\": wanted \"at TIME RATE\" or \"at TIME down TIME\" after a comma", whole);
  Event event{.at = parse_seconds(word())};
  const std::string_view what = word();
  if (what == "down") {
    event.outage = parse_seconds(word());
    if (event.outage <= 0) throw BadInput("\"{}\": an outage lasts longer than 0 s", whole);
  } else {
    const Rates rates = parse_rates(what, whole);
    event.rate = rates.up, event.down = rates.down;
  }
  if (!word().empty()) throw BadInput("\"{}\": a comma separates what happens to a link", whole);
  return event;
}

std::string rates_text(double up, double down) {
  auto one = [](double rate) { return std::isinf(rate) ? std::string("none") : rate_text(rate); };
  return std::isinf(down) ? one(up) : one(up) + ":" + one(down);
}

// Follows a rate that changes over time: constant rates between events, none during an outage.
double passed_at(const Link& link, double Event::*changed, double rate, double begin, int64_t bytes) {
  double now = begin, bits = static_cast<double>(bytes) * 8;
  auto pass_until = [&](double end) {  // true: the last bit is through
    if (now >= end) return false;
    const double needed = bits / rate;
    if (now + needed <= end) {
      now += needed;
      return true;
    }
    bits -= (end - now) * rate;
    now = end;
    return false;
  };
  for (const Event& event : link.events) {
    if (pass_until(event.at)) return now;
    if (event.outage > 0)
      now = std::max(now, event.at + event.outage);
    else
      rate = event.*changed;
  }
  pass_until(kUnlimited);
  return now;
}

}  // namespace

void from_text(std::string_view text, Link& out) {
  const size_t comma = text.find(',');
  std::string_view first = text.substr(0, comma);
  const size_t slash = first.find('/');
  const Rates rates = parse_rates(first.substr(0, slash), text);
  Link link{.rate = rates.up, .down = rates.down};
  if (slash != std::string_view::npos) {
    const std::string_view delay = first.substr(slash + 1);
    const size_t tilde = delay.find('~');
    link.latency = parse_seconds(delay.substr(0, tilde));
    if (tilde != std::string_view::npos) link.jitter = parse_seconds(delay.substr(tilde + 1));
  }
  for (size_t at = comma; at != std::string_view::npos;) {
    const size_t next = text.find(',', at + 1);
    link.events.push_back(parse_event(text.substr(at + 1, next - at - 1), text));
    at = next;
  }
  if (!std::ranges::is_sorted(link.events, {}, &Event::at)) throw BadInput("\"{}\": later events come later", text);
  out = link;
}

std::string to_text(const Link& link) {
  std::string text = rates_text(link.rate, link.down);
  if (link.latency > 0 || link.jitter > 0) text += "/" + seconds_text(link.latency);
  if (link.jitter > 0) text += "~" + seconds_text(link.jitter);
  for (const Event& event : link.events)
    text += fmt::format(", at {} {}", seconds_text(event.at),
                        event.outage > 0 ? "down " + seconds_text(event.outage) : rates_text(event.rate, event.down));
  return text;
}

double sent_at(const Link& link, double begin, int64_t bytes) {
  return passed_at(link, &Event::rate, link.rate, begin, bytes);
}

double received_at(const Link& link, double begin, int64_t bytes) {
  return passed_at(link, &Event::down, link.down, begin, bytes);
}

}  // namespace thinwire::net
