#include "thinwire/pipeline/activation_codec.h"

#include <fmt/ranges.h>

#include <charconv>

#include "thinwire/base/errors.h"
#include "thinwire/compress/codec.h"

namespace thinwire::pipeline {
namespace {

constexpr std::string_view kThreshold = "threshold:";

[[noreturn]] void no_such_codec(std::string_view text) {
  throw BadInput("there is no codec \"{}\" between stages (there are: {}, threshold:KEEP)", text,
                 fmt::join(compress::codec_names(), ", "));
}

}  // namespace

std::optional<double> ActivationCodec::keep() const {
  if (!text.starts_with(kThreshold)) return {};
  double keep = 0;
  const char *from = text.data() + kThreshold.size(), *to = text.data() + text.size();
  const auto [end, error] = std::from_chars(from, to, keep);
  if (error != std::errc() || end != to || !(keep > 0 && keep <= 1))
    throw BadInput("threshold wants a share above 0 and up to 1, like \"threshold:0.1\", got \"{}\"", text);
  return keep;
}

void from_text(std::string_view text, ActivationCodec& codec) {
  ActivationCodec read = codec;
  read.text = text;
  if (!read.keep()) {
    try {
      compress::make_codec(text);
    } catch (const BadInput&) {
      if (text.starts_with("topk:")) throw;  // says what is wrong with its share
      no_such_codec(text);
    }
  }
  codec = read;
}

std::string to_text(const ActivationCodec& codec) { return codec.text; }

}  // namespace thinwire::pipeline
