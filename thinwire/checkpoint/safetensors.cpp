#include "thinwire/checkpoint/safetensors.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "thinwire/base/read_file.h"

namespace thinwire::checkpoint {
namespace {

using nlohmann::json;
using Event = json::parse_event_t;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr std::pair<at::ScalarType, const char*> kTypes[] = {
    {at::kDouble, "F64"}, {at::kFloat, "F32"}, {at::kHalf, "F16"}, {at::kBFloat16, "BF16"}, {at::kLong, "I64"},
    {at::kInt, "I32"},    {at::kShort, "I16"}, {at::kChar, "I8"},  {at::kByte, "U8"},       {at::kBool, "BOOL"}};
constexpr const char* kMetadata = "__metadata__";
constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr int kMaxDims = 64;

std::string_view view(const at::Tensor& x) { return {static_cast<const char*>(x.const_data_ptr()), x.nbytes()}; }

// A name from the file as an error can show it: short, and in one line whatever is in it.
std::string quoted(const std::string& text) {
  return json(text.substr(0, 60)).dump(-1, ' ', true, json::error_handler_t::replace);
}

// Refuses during parsing what should not be built (deep nesting, long lists) or could not be seen later (a name twice).
class Guard {
 public:
  explicit Guard(const std::string& file) : file_(file) {}

  void operator()(int depth, Event event, const json& parsed) {
    if (event == Event::object_start || event == Event::array_start) {
      TORCH_CHECK(depth <= 2, file_, ": the header is nested too deep");
      if (depth == 1) fields_.clear();
      items_ = 0;
    } else if (event == Event::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      TORCH_CHECK((depth == 1 ? tensors_ : fields_).insert(name).second, file_, ": the header has ", quoted(name),
                  " twice");
    } else if (event == Event::value && depth == 3) {
      TORCH_CHECK(++items_ <= kMaxDims, file_, ": the header has a list of more than ", kMaxDims, " numbers");
    }
  }

 private:
  const std::string& file_;
  std::set<std::string> tensors_, fields_;
  int items_ = 0;
};

json parse_header(std::string_view text, const std::string& file) {
  // The parser takes a zero byte for the end and skips a byte order mark.
  bool good = text.starts_with('{') && text.find('\0') == text.npos;
  json header;
  Guard guard(file);
  try {
    if (good)
      header =
          json::parse(text, [&](int depth, Event event, json& parsed) { return guard(depth, event, parsed), true; });
  } catch (const json::exception&) {
    good = false;
  }
  TORCH_CHECK(good, file, ": the header is not a JSON object");
  return header;
}

// The list's whole numbers, none negative or beyond int64; false if it is anything else.
bool read_list(const json& list, std::vector<int64_t>& out) {
  if (!list.is_array()) return false;
  for (const json& item : list) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > INT64_MAX) return false;
    out.push_back(item.get<int64_t>());
  }
  return true;
}

struct Part {
  int64_t begin, end;
  std::string tensor;
  at::ScalarType type;
  std::vector<int64_t> shape;
};

Part read_part(const std::string& tensor, const json& entry, int64_t data_bytes, const std::string& file) {
  const std::string where = file + ": tensor " + quoted(tensor);
  TORCH_CHECK(entry.is_object() && entry.size() == 3 && entry.contains("dtype") && entry.contains("shape") &&
                  entry.contains("data_offsets"),
              where, " should have dtype, shape and data_offsets");
  Part part{0, 0, tensor, at::kByte, {}};

  const json& dtype = entry["dtype"];
  const auto* known = std::ranges::find_if(kTypes, [&](const auto& type) { return dtype == type.second; });
  TORCH_CHECK(known != std::end(kTypes), where, " has an unknown dtype ",
              dtype.is_string() ? quoted(dtype.get<std::string>()) : dtype.type_name());
  part.type = known->first;

  TORCH_CHECK(read_list(entry["shape"], part.shape), where, ": shape should be a list of whole numbers");
  auto bytes = static_cast<int64_t>(c10::elementSize(part.type));
  bool empty = false, overflow = false;
  for (int64_t size : part.shape) {  // an empty tensor has strides too, which must not overflow
    empty |= size == 0;
    overflow |= __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  }
  TORCH_CHECK(!overflow, where, ": shape has more elements than can be counted");
  if (empty) bytes = 0;

  std::vector<int64_t> offsets;
  TORCH_CHECK(read_list(entry["data_offsets"], offsets) && offsets.size() == 2, where,
              ": data_offsets should be two whole numbers");
  std::tie(part.begin, part.end) = std::pair(offsets[0], offsets[1]);
  TORCH_CHECK(part.begin <= part.end && part.end <= data_bytes, where, " is at bytes ", part.begin, " to ", part.end,
              " of ", data_bytes);
  TORCH_CHECK(part.end - part.begin == bytes, where, " should have ", bytes, " bytes for its shape and dtype, has ",
              part.end - part.begin);
  return part;
}

// Every byte belongs to one tensor, and nothing is left over.
void check_cover(std::vector<Part>& parts, int64_t data_bytes, const std::string& file) {
  std::ranges::sort(parts, {}, [](const Part& part) { return std::pair(part.begin, part.end); });
  int64_t end = 0;
  for (const Part& part : parts) {
    TORCH_CHECK(part.begin == end, file, ": tensor ", quoted(part.tensor), " should start at byte ", end,
                ", starts at ", part.begin);
    end = part.end;
  }
  TORCH_CHECK(end == data_bytes, file, ": the tensors end at byte ", end, " of ", data_bytes);
}

at::Tensor copy_part(const Part& part, std::string_view data, const std::string& file) {
  at::Tensor x = at::empty(part.shape, part.type);
  const std::string_view from = data.substr(part.begin, part.end - part.begin);
  if (part.type == at::kBool)
    TORCH_CHECK(std::ranges::all_of(from, [](char c) { return c == 0 || c == 1; }), file, ": tensor ",
                quoted(part.tensor), " is BOOL and has bytes other than 0 and 1");
  if (!from.empty()) std::memcpy(x.mutable_data_ptr(), from.data(), from.size());
  return x;
}

}  // namespace

Written write_safetensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors,
                          const std::map<std::string, std::string>& metadata) {
  std::vector<std::string> entries;
  if (!metadata.empty()) entries.push_back(fmt::format("\"{}\":{}", kMetadata, json(metadata).dump()));
  std::vector<at::Tensor> values;
  size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(name != kMetadata && tensor.defined(), path.string(), ": cannot write a tensor ", quoted(name),
                name == kMetadata ? ", the name is taken" : ", it has no value");
    const auto* type = std::ranges::find(kTypes, tensor.scalar_type(), [](const auto& known) { return known.first; });
    TORCH_CHECK(type != std::end(kTypes), path.string(), ": cannot write tensor ", quoted(name), " of type ",
                tensor.scalar_type());
    values.push_back(tensor.cpu().contiguous());
    entries.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", json(name).dump(),
                                  type->second, fmt::join(tensor.sizes(), ","), offset,
                                  offset + values.back().nbytes()));
    offset += values.back().nbytes();
  }
  std::string header = fmt::format("{{{}}}", fmt::join(entries, ","));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  TORCH_CHECK(header.size() <= kMaxHeader, path.string(), ": a header of ", header.size(), " bytes is too long");

  const uint64_t length = header.size();
  std::vector<std::string_view> parts{{reinterpret_cast<const char*>(&length), sizeof length}, header};
  for (const at::Tensor& value : values) parts.push_back(view(value));
  return write_file(path, parts);
}

Safetensors parse_safetensors(const std::string& bytes, const std::string& name) {
  uint64_t length = 0;
  TORCH_CHECK(bytes.size() >= sizeof length, name, ": ", bytes.size(), " bytes are too few for a safetensors file");
  std::memcpy(&length, bytes.data(), sizeof length);
  std::string_view data = std::string_view(bytes).substr(sizeof length);
  TORCH_CHECK(length <= kMaxHeader && length <= data.size(), name, ": the header should have ", length, " bytes, ",
              length <= data.size() ? "the most allowed is " : "the file has room for ",
              std::min<uint64_t>(kMaxHeader, data.size()));
  const json header = parse_header(data.substr(0, length), name);
  data.remove_prefix(length);

  Safetensors result;
  std::vector<Part> parts;
  for (const auto& [key, entry] : header.items()) {
    if (key != kMetadata) {
      parts.push_back(read_part(key, entry, static_cast<int64_t>(data.size()), name));
      continue;
    }
    TORCH_CHECK(entry.is_object(), name, ": ", kMetadata, " should be an object, is ", entry.type_name());
    for (const auto& [key, value] : entry.items()) {
      TORCH_CHECK(value.is_string(), name, ": ", kMetadata, " ", quoted(key), " should be a string, is ",
                  value.type_name());
      result.metadata[key] = value.get<std::string>();
    }
  }
  check_cover(parts, static_cast<int64_t>(data.size()), name);
  for (const Part& part : parts) result.tensors[part.tensor] = copy_part(part, data, name);
  return result;
}

Safetensors read_safetensors(const std::filesystem::path& path) {
  return parse_safetensors(read_file(path), path.string());
}

}  // namespace thinwire::checkpoint
