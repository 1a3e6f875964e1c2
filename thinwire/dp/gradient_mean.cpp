#include "thinwire/dp/gradient_mean.h"

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

GradientMean::GradientMean(const optim::Layout& layout, const Ranks& ranks, at::Tensor grad, int64_t bucket_bytes,
                           const compress::CodecName& codec)
    : ranks_(ranks),
      grad_(std::move(grad)),
      filled_(optim::filled_blocks(layout)),
      buckets_(make_buckets(layout, bucket_bytes, codec.text != "none")),
      mean_(codec.text == "none"
                ? nullptr
                : std::make_unique<compress::Mean>(ranks.sync, compress::make_codec(codec.text), [layout](int64_t i) {
                    return "the gradient of " + optim::place_in(layout, i);
                  })) {
  for (const auto& piece : layout.pieces) {
    auto holds = [&](const Bucket& b) { return b.begin <= piece.at && piece.at < b.end; };
    bucket_of_piece_.push_back(static_cast<int>(std::ranges::find_if(buckets_, holds) - buckets_.begin()));
  }
  for (const Bucket& bucket : buckets_) {
    missing_.push_back(bucket.pieces);
    if (mean_) errors_.push_back(mean_->errors(bucket.end - bucket.begin));
  }
  ready_.resize(layout.pieces.size());
}

void GradientMean::grad_ready(int piece) {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(!ready_[piece], "[dp.all_reduce] the gradient of piece ", piece,
              " came twice before step(): its first value is already on the wire");
  ready_[piece] = true;
  --missing_[bucket_of_piece_[piece]];
  launch_ready();
}

void GradientMean::launch_ready() {
  while (works_.size() < buckets_.size() && missing_[works_.size()] == 0) {
    const size_t k = works_.size();
    const int64_t begin = buckets_[k].begin, n = buckets_[k].end - begin;
    at::Tensor part = grad_.narrow(0, begin, n);
    if (k == 0) local_squares_ = 0;
    local_squares_ += kernels::sum_squares(part);
    if (mean_) {
      const auto filled = std::span(filled_).subspan(begin / optim::kBlock, (n + optim::kBlock - 1) / optim::kBlock);
      works_.push_back(mean_->start(part, errors_[k], filled));
    } else {
      works_.push_back(ranks_.sync->all_reduce_(part, comm::Reduce::mean));
    }
  }
}

std::vector<comm::WorkPtr> GradientMean::take() {
  std::lock_guard lock(mutex_);
  std::ranges::fill(missing_, 0);  // what no hook announced is ready now
  launch_ready();
  ready_.assign(ready_.size(), false);
  std::ranges::transform(buckets_, missing_.begin(), &Bucket::pieces);
  return std::exchange(works_, {});
}

GradientNorms GradientMean::norms() const {
  double local = local_squares_, mean = kernels::sum_squares(grad_);
  if (ranks_.sum_over_shards) local = ranks_.sum_over_shards(local), mean = ranks_.sum_over_shards(mean);
  return {local, mean};
}

void GradientMean::put(State& state, const std::string& prefix) const {
  for (size_t k = 0; k < errors_.size(); ++k) errors_[k].put(state, fmt::format("{}bucket.{}.", prefix, k));
}

void GradientMean::get(const State& state, const std::string& prefix) {
  for (size_t k = 0; k < errors_.size(); ++k) errors_[k].get(state, fmt::format("{}bucket.{}.", prefix, k));
}

}  // namespace thinwire::dp
