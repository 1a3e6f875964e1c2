#include "thinwire/optim/layout.h"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>

#include "thinwire/kernels/host_span.h"
#include "thinwire/kernels/reduce.h"

namespace thinwire::optim {

Layout make_layout(const std::vector<std::vector<at::Tensor>>& units) {
  Layout layout;
  int tensor = 0;
  for (const auto& unit : units) {
    for (const auto& t : unit) {
      layout.options = layout.options.device(t.device());
      layout.pieces.push_back({layout.numel, t.numel(), tensor++, t.dim() >= 2 ? kDecayed : kUndecayed});
      layout.numel += t.numel();
    }
    layout.numel = kernels::blocks(layout.numel) * kBlock;
  }
  layout.tensors = tensor;
  layout.ranges = {{.first = 0, .count = layout.numel / kBlock}};
  return layout;
}

double sum_squares(const Layout& layout, const at::Tensor& flat) {
  double sum = kernels::sum_squares(flat);  // padding is zero
  for (const Piece& piece : layout.pieces)
    if (piece.duplicate) sum -= kernels::sum_squares(flat, piece.range());
  return sum;
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

at::Tensor valid_counts(const Layout& layout) {
  const at::Tensor counts = at::zeros({layout.numel / kBlock}, at::kInt);
  const auto valid = kernels::host_span<int32_t>(counts);
  for (const Piece& piece : layout.pieces)
    for (int64_t at = piece.at, end = piece.at + piece.numel; at < end; at = (at / kBlock + 1) * kBlock)
      valid[at / kBlock] = static_cast<int32_t>(std::min(end - at / kBlock * kBlock, kBlock));
  return counts.to(layout.options.device());
}

std::string place_in(const Layout& layout, int64_t i) {
  for (const auto& piece : layout.pieces)
    if (piece.at <= i && i < piece.at + piece.numel)
      return fmt::format("element {} of {}", i - piece.at + piece.offset,
                         layout.names.empty() ? fmt::format("parameter {}", piece.tensor) : layout.names[piece.tensor]);
  return fmt::format("the padding at {}", i);
}

}  // namespace thinwire::optim
