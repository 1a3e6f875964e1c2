#include "thinwire/data/text.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include "thinwire/base/errors.h"
#include "thinwire/base/printable.h"
#include "thinwire/base/random.h"
#include "thinwire/data/files.h"
#include "thinwire/data/synthetic.h"

namespace thinwire::data {
namespace {
namespace fs = std::filesystem;

std::string python_sources() {
  // The program may have been built on another machine, so look where Debian and its kin keep Python, too.
  std::vector<std::string> folders;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator("/usr/lib", absent))
    if (entry.path().filename().string().starts_with("python3")) folders.push_back(entry.path().string());
  std::ranges::sort(folders);
  folders.insert(folders.begin(), THINWIRE_PYTHON_SOURCES);
  for (const std::string& folder : folders)
    if (fs::exists(folder + "/os.py", absent)) return folder;
  throw BadInput("data.path is empty and {} has no Python sources: set data.path to a file or folder",
                 THINWIRE_PYTHON_SOURCES);
}

std::vector<std::string> split(const std::string& words) {
  std::vector<std::string> list;
  std::istringstream rest(words);
  for (std::string text; std::getline(rest, text, ',');)
    list.push_back(text.substr(std::min(text.find_first_not_of(' '), text.size())));
  return list;
}

at::Tensor to_tensor(std::string bytes) {
  auto owner = std::make_shared<std::string>(std::move(bytes));
  return at::from_blob(
      owner->data(), {static_cast<int64_t>(owner->size())}, [owner](void*) {}, at::kByte);
}

void check_length(const std::string& part, const DataOptions& o, const char* name, int64_t context) {
  if (static_cast<int64_t>(part.size()) > context) return;
  const bool made_up = o.source == "synthetic";
  throw BadInput("data.{}: the {} part of {} must be at least context + 1 = {} bytes, got {}",
                 made_up ? "length" : "path", name, made_up ? "the synthetic text" : o.path, context + 1, part.size());
}

struct Parts {
  std::string train, held_out;
  int64_t files = 0;

  void add(const std::string& bytes, double share) {
    const size_t last = static_cast<size_t>(static_cast<double>(bytes.size()) * share);
    train.append(bytes, 0, bytes.size() - last);
    held_out.append(bytes, bytes.size() - last);
    ++files;
  }
};

Parts make_up(const DataOptions& o) {
  const auto seed = static_cast<uint64_t>(o.seed);
  const auto last = static_cast<int64_t>(static_cast<double>(o.length.count) * o.held_out);
  return {synthetic_text(seed, o.branches, o.length.count - last, 0), synthetic_text(seed, o.branches, last, 1), 0};
}

Parts read_parts(const DataOptions& o) {
  std::error_code absent;
  const fs::file_status status = fs::status(o.path, absent);
  Parts parts;
  if (!fs::exists(status)) throw BadInput("data.path: no file or folder {}", o.path);
  if (fs::is_directory(status)) {
    for (const std::string& path : files_under(o.path, o.suffix, split(o.skip))) {
      const std::string bytes = read_text(path);
      if (!bytes.empty() && is_text(bytes)) parts.add(bytes, o.held_out);
    }
    if (parts.files == 0)
      throw BadInput("data.path: no text file{} in folder {}",
                     o.suffix.empty() ? "" : fmt::format(" that ends in \"{}\"", o.suffix), o.path);
  } else {
    // A pipe could be read only once, a device for ever.
    if (!fs::is_regular_file(status)) throw BadInput("data.path: {} is neither a file nor a folder", o.path);
    parts.add(read_text(o.path), o.held_out);
    if (parts.train.empty()) throw BadInput("data.path: file {} is empty", o.path);
  }
  return parts;
}

// Rows that start at `starts` in `bytes`.
Batch cut(const at::Tensor& bytes, const std::vector<int64_t>& starts, int64_t context) {
  const int64_t rows = static_cast<int64_t>(starts.size());
  Batch batch{at::empty({rows, context}, at::kLong), at::empty({rows, context}, at::kLong)};
  const uint8_t* from = bytes.const_data_ptr<uint8_t>();
  int64_t* tokens = batch.tokens.mutable_data_ptr<int64_t>();
  int64_t* targets = batch.targets.mutable_data_ptr<int64_t>();
  for (int64_t start : starts) {
    tokens = std::copy_n(from + start, context, tokens);
    targets = std::copy_n(from + start + 1, context, targets);
  }
  return batch;
}

// Places where a window of `context` tokens and one more can start.
int64_t places(const at::Tensor& bytes, int64_t context) {
  TORCH_CHECK(context >= 1 && bytes.numel() > context, "[data.text] a window needs context + 1 = ", context + 1,
              " bytes, got ", bytes.numel());
  return bytes.numel() - context;
}

}  // namespace

void resolve(DataOptions& options) {
  if (options.source == "synthetic") return;
  if (!options.path.empty()) {
    options.path = fs::absolute(options.path).lexically_normal().string();
    if (!is_utf8(options.path)) throw BadInput("data.path is not UTF-8: {}", printable(options.path));
    return;
  }
  options.path = python_sources();
  if (options.suffix.empty()) options.suffix = ".py";
  if (options.skip.empty()) options.skip = "site-packages,dist-packages,test,tests,__pycache__";
}

std::shared_ptr<const Text> load_text(const DataOptions& options, int64_t context) {
  DataOptions o = options;
  resolve(o);
  const bool made_up = o.source == "synthetic";
  Parts parts = made_up ? make_up(o) : read_parts(o);
  check_length(parts.train, o, "training", context);
  check_length(parts.held_out, o, "held-out", context);
  auto text = std::make_shared<Text>();
  if (made_up) text->entropy = synthetic_entropy(o.branches);
  // One hash seeds the other, so that a byte that moves from one part to the other is noticed as well.
  text->hash = XXH3_64bits_withSeed(parts.held_out.data(), parts.held_out.size(),
                                    XXH3_64bits(parts.train.data(), parts.train.size()));
  text->train = to_tensor(std::move(parts.train));
  text->held_out = to_tensor(std::move(parts.held_out));
  text->files = parts.files;
  return text;
}

Batch sample(const Text& text, uint64_t seed, int64_t step, int64_t replica, int64_t rows, int64_t context) {
  const uint64_t n = static_cast<uint64_t>(places(text.train, context));
  std::vector<int64_t> starts;
  for (int64_t row = 0; row < rows; ++row)
    starts.push_back(
        static_cast<int64_t>(below(n, hash64({seed, stream_id("data"), static_cast<uint64_t>(step),
                                              static_cast<uint64_t>(replica), static_cast<uint64_t>(row)}))));
  return cut(text.train, starts, context);
}

Batch held_out(const Text& text, int64_t windows, int64_t first, int64_t stride, int64_t context) {
  TORCH_CHECK(windows >= 1 && first >= 0 && stride >= 1,
              "[data.text] wanted windows >= 1, first >= 0, stride >= 1, got ", windows, ", ", first, ", ", stride);
  const int64_t last = places(text.held_out, context) - 1, gaps = std::max<int64_t>(windows - 1, 1);
  std::vector<int64_t> starts;
  for (int64_t i = first; i < windows; i += stride) starts.push_back(i * last / gaps);
  return cut(text.held_out, starts, context);
}

}  // namespace thinwire::data
