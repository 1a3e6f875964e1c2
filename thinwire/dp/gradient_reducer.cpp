#include "thinwire/dp/gradient_reducer.h"

#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>

#include "thinwire/kernels/reduce.h"

namespace thinwire::dp {

std::vector<Bucket> make_buckets(const optim::Layout& layout, int64_t least_bytes, bool whole_blocks) {
  std::vector<Bucket> buckets;
  bool open = false;
  for (auto piece = layout.pieces.rbegin(); piece != layout.pieces.rend(); ++piece) {
    if (!open) buckets.push_back({piece->at, piece->at + piece->numel, 0});
    buckets.back().begin = piece->at;
    ++buckets.back().pieces;
    open = (buckets.back().end - buckets.back().begin) * static_cast<int64_t>(sizeof(float)) < least_bytes ||
           (whole_blocks && piece->at % optim::kBlock != 0);
  }
  return buckets;
}

GradientReducer::GradientReducer(const optim::Layout& layout, comm::GroupPtr group, at::Tensor grad,
                                 int64_t bucket_bytes, const compress::CodecName& codec)
    : group_(std::move(group)),
      grad_(std::move(grad)),
      layout_(layout),
      buckets_(make_buckets(layout, bucket_bytes, codec.text != "none")),
      compressed_(codec.text == "none" ? nullptr
                                       : std::make_unique<compress::CompressedAllReduce>(
                                             group_, compress::make_codec(codec.text), [layout](int64_t i) {
                                               return "the gradient of " + optim::place_in(layout, i);
                                             })) {
  for (const auto& piece : layout.pieces) {
    auto holds = [&](const Bucket& b) { return b.begin <= piece.at && piece.at < b.end; };
    bucket_of_piece_.push_back(static_cast<int>(std::ranges::find_if(buckets_, holds) - buckets_.begin()));
  }
  const at::Tensor valid = optim::valid_counts(layout);
  for (const auto& [begin, end, pieces] : buckets_) {
    missing_.push_back(pieces);
    if (!compressed_) continue;
    errors_.push_back(compressed_->errors(end - begin, layout.options));
    valid_.push_back(valid.narrow(0, begin / optim::kBlock, kernels::blocks(end - begin)));
  }
  ready_.resize(layout.pieces.size());
}

void GradientReducer::grad_ready(int piece) {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(!ready_[piece], "[dp.all_reduce] the gradient of piece ", piece,
              " came twice before step(): its first value is already on the wire");
  ready_[piece] = true;
  --missing_[bucket_of_piece_[piece]];
  launch_ready();
}

void GradientReducer::launch_ready() {
  while (works_.size() < buckets_.size() && missing_[works_.size()] == 0) {
    const size_t k = works_.size();
    const int64_t begin = buckets_[k].begin, n = buckets_[k].end - begin;
    at::Tensor part = grad_.narrow(0, begin, n);
    if (k == 0) local_squares_ = 0;
    local_squares_ += kernels::sum_squares(part);
    for (const optim::Piece& piece : layout_.pieces)
      if (piece.duplicate && begin <= piece.at && piece.at < begin + n)
        local_squares_ -= kernels::sum_squares(grad_, piece.range());
    works_.push_back(compressed_ ? compressed_->start(part, errors_[k], valid_[k])
                                 : group_->all_reduce_(part, comm::Reduce::mean));
  }
}

std::vector<comm::WorkPtr> GradientReducer::take() {
  std::lock_guard lock(mutex_);
  std::ranges::fill(missing_, 0);  // what no hook announced is ready now
  launch_ready();
  ready_.assign(ready_.size(), false);
  std::ranges::transform(buckets_, missing_.begin(), &Bucket::pieces);
  return std::exchange(works_, {});
}

bool GradientReducer::begun() const {
  std::lock_guard lock(mutex_);
  return std::ranges::find(ready_, true) != ready_.end();
}

at::Tensor GradientReducer::squares() const {
  return at::tensor({local_squares_, optim::sum_squares(layout_, grad_)}, at::kDouble);
}

void GradientReducer::put(State& state, const std::string& prefix) const {
  for (size_t k = 0; k < errors_.size(); ++k) errors_[k].put(state, fmt::format("{}bucket.{}.", prefix, k));
}

void GradientReducer::get(const State& state, const std::string& prefix) {
  for (size_t k = 0; k < errors_.size(); ++k) errors_[k].get(state, fmt::format("{}bucket.{}.", prefix, k));
}

}  // namespace thinwire::dp
