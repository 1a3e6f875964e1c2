#include "thinwire/dp/all_reduce.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace thinwire::dp {

std::vector<Bucket> make_buckets(const optim::Layout& layout, int64_t least_bytes) {
  std::vector<Bucket> buckets;
  bool open = false;
  for (auto piece = layout.pieces.rbegin(); piece != layout.pieces.rend(); ++piece) {
    if (!open) buckets.push_back({piece->at, piece->at + piece->numel, 0});
    buckets.back().begin = piece->at;
    ++buckets.back().pieces;
    open = (buckets.back().end - buckets.back().begin) * static_cast<int64_t>(sizeof(float)) < least_bytes;
  }
  return buckets;
}

AllReduce::AllReduce(const optim::Layout& layout, Ranks ranks, optim::RulePtr rule, const AllReduceOptions& options,
                     at::Tensor x, at::Tensor grad)
    : ranks_(std::move(ranks)),
      rule_(std::move(rule)),
      grad_(std::move(grad)),
      buckets_(make_buckets(layout, options.bucket.count)) {
  for (const auto& piece : layout.pieces) {
    auto holds = [&](const Bucket& b) { return b.begin <= piece.at && piece.at < b.end; };
    bucket_of_piece_.push_back(static_cast<int>(std::ranges::find_if(buckets_, holds) - buckets_.begin()));
  }
  for (const Bucket& bucket : buckets_) missing_.push_back(bucket.pieces);
  ready_.resize(layout.pieces.size());
  ranks_.sync->broadcast_(x, 0)->wait();
}

void AllReduce::grad_ready(int piece) {
  std::lock_guard lock(mutex_);
  TORCH_CHECK(!ready_[piece], "[dp.all_reduce] the gradient of piece ", piece,
              " came twice before step(): its first value is already on the wire");
  ready_[piece] = true;
  --missing_[bucket_of_piece_[piece]];
  launch_ready();
}

void AllReduce::launch_ready() {
  while (works_.size() < buckets_.size() && missing_[works_.size()] == 0) {
    const Bucket& bucket = buckets_[works_.size()];
    works_.push_back(
        ranks_.sync->all_reduce_(grad_.narrow(0, bucket.begin, bucket.end - bucket.begin), comm::Reduce::mean));
  }
}

void AllReduce::step(const optim::Update& update) {
  TORCH_CHECK(update.grad.const_data_ptr() == grad_.const_data_ptr(),
              "[dp.all_reduce] step() must be given the gradient the strategy was made with");
  {
    std::lock_guard lock(mutex_);
    std::ranges::fill(missing_, 0);  // what no hook announced is ready now
    launch_ready();
  }
  for (auto& work : works_) wait(*work);
  works_.clear();
  ready_.assign(ready_.size(), false);
  std::ranges::transform(buckets_, missing_.begin(), &Bucket::pieces);
  if (!update.skip) rule_->apply(update);
}

State AllReduce::state() {
  State state;
  add_prefixed(state, "rule.", rule_->state());
  return state;
}

void AllReduce::load(const State& state) { rule_->load(with_prefix(state, "rule.")); }

}  // namespace thinwire::dp
