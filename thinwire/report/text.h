// Text for the report: HTML escapes, and numbers as a person reads them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thinwire::report {

std::string escaped(std::string_view text);  // fit for HTML, between tags and in attributes; control characters go

// All give "–" for a number that is not finite. Between a number and its unit stands a space that does not break.
std::string fixed_text(double value, int decimals);
std::string signed_text(double value, int decimals);  // +0.0123, −0.0123
std::string short_count(double n);                    // 950, 12.3k, 4.56M, 1.20G
std::string bytes_text(double bytes);                 // 640 B, 12.3 kB, 4.56 MB, 1.20 GB
std::string time_text(double seconds);                // 12 ms, 1.23 s, 4 min 5 s, 2 h 3 min
std::string percent_text(double share);               // 7 %, 0.3 %
std::string link_text(
    const std::string& link);  // "100mbit/20ms" as "100 Mbit/s, 20 ms"; what it does not know, as it is
// "a, b and c"
std::string and_text(const std::vector<std::string>& words);

}  // namespace thinwire::report
