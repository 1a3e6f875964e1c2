#include "thinwire/report/page.h"

#include <string_view>

#include "thinwire/report/text.h"

namespace thinwire::report {

extern const std::string_view kPageCss, kPageJs;  // page.css and page.js, which the build embeds

namespace {

constexpr const char* kPatterns =
    R"svg(<svg class="defs" aria-hidden="true"><title>patterns</title><defs>
<pattern id="waiting" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="5" height="5" fill="var(--wait)"/><line x1="0" x2="0" y1="0" y2="5" stroke="var(--wait-line)" stroke-width="1.6"/>
</pattern></defs></svg>)svg";

}  // namespace

std::string page_html(const std::string& title, const std::string& body) {
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  out += "<link rel=\"icon\" href=\"data:,\">\n<title>" + escaped(title) + "</title>\n<style>\n";
  out += kPageCss;
  out += "</style>\n</head>\n<body>\n";
  out += kPatterns;
  out += "\n<main>\n" + body + "</main>\n<div id=\"tip\" role=\"status\"></div>\n<script>\n";
  out += kPageJs;
  return out + "</script>\n</body>\n</html>\n";
}

}  // namespace thinwire::report
