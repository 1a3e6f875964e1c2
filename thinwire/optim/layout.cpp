#include "thinwire/optim/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace thinwire::optim {

Layout make_layout(const std::vector<std::vector<at::Tensor>>& units) {
  Layout layout;
  int tensor = 0;
  for (const auto& unit : units) {
    for (const auto& t : unit) {
      layout.pieces.push_back({layout.numel, t.numel(), tensor++, t.dim() >= 2 ? kDecayed : kUndecayed});
      layout.numel += t.numel();
    }
    layout.numel = (layout.numel + kBlock - 1) / kBlock * kBlock;
  }
  return layout;
}

std::vector<Span> spans(const Layout& layout) {
  std::vector<Span> joined;
  for (const Piece& piece : layout.pieces) {
    if (!joined.empty() && joined.back().group == piece.group)
      joined.back().numel = piece.at + piece.numel - joined.back().at;
    else
      joined.push_back({piece.at, piece.numel, piece.group});
  }
  return joined;
}

std::vector<int32_t> filled_blocks(const Layout& layout) {
  std::vector<int32_t> filled(layout.numel / kBlock);
  for (const Piece& piece : layout.pieces)
    for (int64_t at = piece.at, end = piece.at + piece.numel; at < end; at = (at / kBlock + 1) * kBlock)
      filled[at / kBlock] = static_cast<int32_t>(std::min(end - at / kBlock * kBlock, kBlock));
  return filled;
}

std::string place_in(const Layout& layout, int64_t i) {
  for (const auto& piece : layout.pieces)
    if (piece.at <= i && i < piece.at + piece.numel)
      return fmt::format("element {} of {}", i - piece.at,
                         layout.names.empty() ? fmt::format("parameter {}", piece.tensor) : layout.names[piece.tensor]);
  return fmt::format("the padding at {}", i);
}

}  // namespace thinwire::optim
