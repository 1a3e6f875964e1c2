#include "thinwire/train/timeline.h"

#include <algorithm>

namespace thinwire::train {

using Json = nlohmann::ordered_json;

Json timeline(const std::vector<TracePtr>& ranks, int64_t last_step, int64_t steps) {
  const auto first = ranks.at(0)->of(Doing::step);
  const int64_t shown = std::min<int64_t>(steps, static_cast<int64_t>(first.size()));
  Json out = {{"from_step", last_step - shown + 1}, {"to_step", last_step}, {"ranks", Json::array()}};
  if (shown == 0) return out;
  const auto begin = first[first.size() - shown].begin, end = first.back().end;
  auto within = [&](const TracePtr& trace, Doing what) {
    Json list = Json::array();
    for (const Stretch& stretch : trace->of(what)) {
      if (stretch.end <= begin || stretch.begin >= end) continue;
      Json item = {seconds_between(begin, std::max(begin, stretch.begin)),
                   seconds_between(begin, std::min(end, stretch.end))};
      if (what == Doing::transfer) item.push_back(stretch.number);
      list.push_back(std::move(item));
    }
    return list;
  };
  for (const auto& trace : ranks)
    out["ranks"].push_back({{"steps", within(trace, Doing::step)},
                            {"waits", within(trace, Doing::wait)},
                            {"transfers", within(trace, Doing::transfer)}});
  return out;
}

}  // namespace thinwire::train
