// How activations and their gradients are compressed between two stages, as an option of a recipe: the option
// `pipeline.codec` and, for a threshold, `pipeline.renew`. A value; what carries it out is stage_channel.h.
//
// Dense codecs (compress/codec.h) encode every number, both ways. "threshold:KEEP" (threshold.h) sends the KEEP largest
// of an activation, and of its gradient those at the same places.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thinwire::pipeline {

struct ActivationCodec {
  std::string text = "none";  // a codec of compress/codec.h, or "threshold:KEEP": the largest numbers (threshold.h)
  int64_t renew = 50;         // messages a threshold is used for, >= 1; matters where there is one

  // The share of the numbers that is sent, in (0, 1], if this is a threshold.
  std::optional<double> keep() const;
};
// BadInput, with the names there are, if there is no such codec, or if KEEP is out of range. Only the text is read and
// written: `renew` is an option of its own.
void from_text(std::string_view text, ActivationCodec& codec);
std::string to_text(const ActivationCodec& codec);

}  // namespace thinwire::pipeline
