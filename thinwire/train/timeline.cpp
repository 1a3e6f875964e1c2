#include "thinwire/train/timeline.h"

#include <algorithm>
#include <cstring>

namespace thinwire::train {

using Json = nlohmann::ordered_json;

std::vector<TracePtr> gather_traces(const comm::World& world, const Trace& own) {
  std::vector<int64_t> numbers;  // for each kind how many, then begin, end and number of each
  for (int kind = 0; kind < kTraceKinds; ++kind) {
    const auto kept = own.of(static_cast<TraceKind>(kind));
    numbers.push_back(std::ssize(kept));
    for (const Interval& i : kept)
      numbers.insert(numbers.end(), {i.begin.time_since_epoch().count(), i.end.time_since_epoch().count(), i.number});
  }
  const auto offsets = world.clock_offsets();
  const auto all =
      world.gather_bytes({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t)});
  std::vector<TracePtr> traces;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::vector<int64_t> theirs(all[rank].size() / sizeof(int64_t));
    std::memcpy(theirs.data(), all[rank].data(), theirs.size() * sizeof(int64_t));
    size_t at = 0;
    auto next = [&] { return at < theirs.size() ? theirs[at++] : 0; };
    auto moment = [&] { return Clock::time_point(Clock::duration(next())) + offsets[rank]; };
    traces.push_back(std::make_shared<Trace>(theirs.size()));
    for (int kind = 0; kind < kTraceKinds; ++kind)
      for (int64_t left = next(); left > 0 && at < theirs.size(); --left) {
        const auto begin = moment(), end = moment();
        traces.back()->add(static_cast<TraceKind>(kind), begin, end, next());
      }
  }
  return traces;
}

Json timeline(const std::vector<TracePtr>& ranks, int64_t last_step, int64_t steps) {
  const auto first = ranks.at(0)->of(TraceKind::step);
  const int64_t shown = std::min<int64_t>(steps, static_cast<int64_t>(first.size()));
  Json out = {{"from_step", last_step - shown + 1}, {"to_step", last_step}, {"ranks", Json::array()}};
  if (shown == 0) return out;
  const auto begin = first[first.size() - shown].begin, end = first.back().end;
  auto within = [&](const TracePtr& trace, TraceKind what) {
    Json list = Json::array();
    for (const Interval& interval : trace->of(what)) {
      if (interval.end <= begin || interval.begin >= end) continue;
      Json item = {seconds_between(begin, std::max(begin, interval.begin)),
                   seconds_between(begin, std::min(end, interval.end))};
      if (what == TraceKind::transfer) item.push_back(interval.number);
      list.push_back(std::move(item));
    }
    return list;
  };
  for (const auto& trace : ranks)
    out["ranks"].push_back({{"steps", within(trace, TraceKind::step)},
                            {"waits", within(trace, TraceKind::wait)},
                            {"transfers", within(trace, TraceKind::transfer)}});
  return out;
}

}  // namespace thinwire::train
