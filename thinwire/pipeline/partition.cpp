#include "thinwire/pipeline/partition.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <numeric>

#include "thinwire/base/errors.h"

namespace thinwire::pipeline {

double stage_cost(std::span<const UnitCost> units, bool last) {
  double cost = 0;
  for (const UnitCost& unit : units) cost += (last ? 1 : 2) * unit.forward + unit.backward;
  return cost;
}

std::vector<int64_t> partition(std::span<const UnitCost> units, int stages) {
  const auto n = static_cast<int64_t>(units.size());
  if (stages < 1 || stages > n)
    throw BadInput(
        "workers.stages must be from 1 to {}, as many as the model has units (embedding, {} layers, head), "
        "got {}",
        n, n - 2, stages);
  // slowest[k][i]: of the best partition of units i.. into the last k + 1 stages; taken[k][i]: units of its first
  // stage.
  std::vector<std::vector<double>> slowest(stages, std::vector<double>(n + 1, INFINITY));
  std::vector<std::vector<int64_t>> taken(stages, std::vector<int64_t>(n + 1, 0));
  for (int64_t i = 0; i < n; ++i) {
    slowest[0][i] = stage_cost(units.subspan(i), /*last=*/true);
    taken[0][i] = n - i;
  }
  for (int k = 1; k < stages; ++k)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t size = 1; i + size < n; ++size) {
        const double here = std::max(stage_cost(units.subspan(i, size), /*last=*/false), slowest[k - 1][i + size]);
        if (here < slowest[k][i]) slowest[k][i] = here, taken[k][i] = size;
      }
  std::vector<int64_t> sizes;
  for (int64_t k = stages - 1, i = 0; k >= 0; --k) {
    sizes.push_back(taken[k][i]);
    i += sizes.back();
  }
  return sizes;
}

std::string to_text(const std::vector<int64_t>& partition) { return fmt::format("{}", fmt::join(partition, ",")); }

std::vector<int64_t> partition_from_text(std::string_view text, int stages, int64_t units) {
  std::vector<int64_t> sizes;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    int64_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + comma, size);
    if (error != std::errc() || end != rest.data() + comma || size < 1) sizes.push_back(-units);
    sizes.push_back(size);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  if (text.ends_with(',') || std::ssize(sizes) != stages ||
      std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != units)
    throw BadInput(
        "pipeline.cut must be \"estimated\", \"measured\", or how many of the {} units (embedding, {} "
        "layers, head) each of the {} stages takes, like \"{}\"; got \"{}\"",
        units, units - 2, stages, to_text(partition(std::vector<UnitCost>(static_cast<size_t>(units), {1, 2}), stages)),
        text);
  return sizes;
}

}  // namespace thinwire::pipeline
