// The frame of the report: one HTML document with its style and script inside, and nothing to load from elsewhere.
//
// Series look like s0..s7 (Okabe and Ito's colours, told apart by dashes too); intervals are compute, wait,
// wire, other; blocks of a pipeline forward, backward, weights, update, idle. The script only shows values under the
// pointer, and writes on <html> what a test wants to know: data-ready, data-overflow (pixels that stick out to the
// right), data-scheme.
#pragma once

#include <string>

namespace thinwire::report {

inline constexpr int kLooks = 8;

std::string page_html(const std::string& title, const std::string& body);

}  // namespace thinwire::report
