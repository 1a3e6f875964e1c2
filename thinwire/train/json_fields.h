// Fields of a JSON object that comes from a file. One that is absent or null has a value that says so; one of the wrong
// type is BadInput that starts with `place`, the file and, where there are several, the line.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace thinwire::train {

nlohmann::json parse_object(const std::string& text, const std::string& place);

double number_of(const nlohmann::json& json, const char* key, const std::string& place);  // or NaN: JSON has none
int64_t whole_of(const nlohmann::json& json, const char* key, const std::string& place);  // or 0
std::string text_of(const nlohmann::json& json, const char* key, const std::string& place);

}  // namespace thinwire::train
