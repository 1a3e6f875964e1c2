#include "thinwire/train/json_fields.h"

#include <cmath>

#include "thinwire/base/errors.h"

namespace thinwire::train {

using Json = nlohmann::json;

Json parse_object(const std::string& text, const std::string& place) {
  auto json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw BadInput("{}: not a JSON object", place);
  return json;
}

double number_of(const Json& json, const char* key, const std::string& place) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return NAN;
  if (!it->is_number()) throw BadInput("{}: {} is not a number", place, key);
  return it->get<double>();
}

int64_t whole_of(const Json& json, const char* key, const std::string& place) {
  const double value = number_of(json, key, place);
  if (std::isnan(value)) return 0;
  if (!(std::abs(value) < 1e15)) throw BadInput("{}: {} is not a count", place, key);
  return static_cast<int64_t>(value);
}

std::string text_of(const Json& json, const char* key, const std::string& place) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return "";
  if (!it->is_string()) throw BadInput("{}: {} is not a text", place, key);
  return it->get<std::string>();
}

}  // namespace thinwire::train
