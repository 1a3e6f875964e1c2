#include "thinwire/dp/traits.h"

#include <fmt/format.h>

#include <map>

#include "thinwire/dp/catalog.h"

namespace thinwire::dp {
namespace {

// p is the period, n the number of slices, k and d numbers of steps, c the codec.
const std::map<std::string, std::string> kSentences = {
    {"all_reduce",
     "Every replica sends its gradients in every step, and all take the same averaged step, as if one machine had "
     "seen all the data. It is exact and the yardstick for the others, but it sends the most and waits whenever "
     "the wire is slower than the computation."},
    {"local_sgd",
     "Each replica trains alone for {p} steps, then all replace their weights by the average of all and go on from"
     " there. That sends {p} times less than averaging every step, but everyone still stops and waits for each "
     "average."},
    {"slowmo",
     "Each replica trains alone for {p} steps; the average of where they got to is taken as a direction, and the "
     "shared weights move along it with momentum, so that progress that keeps pointing the same way adds up. "
     "Everyone waits for each average."},
    {"diloco",
     "Each replica trains alone for {p} steps; the average of their progress is handed to a second optimizer with "
     "Nesterov momentum that moves the shared weights. Everyone waits for each average."},
    {"delayed_diloco",
     "This is diloco one round late: the progress of a round of {p} steps is sent off while the next round "
     "computes, and used when that ends. Nobody waits as long as a transfer takes no longer than a round."},
    {"eager_diloco",
     "This is diloco one round late, and while a round’s progress is under way each replica already goes on with "
     "its own share of it. Nobody waits as long as a transfer takes no longer than the {p} steps of a round."},
    {"cocod",
     "Each replica trains on for {p} steps while the average of the round before is under way, and then swaps its "
     "old starting point for that average, keeping what it has done meanwhile. Nobody waits as long as a transfer "
     "takes no longer than a round."},
    {"co2",
     "A round’s progress ({p} steps) is sent off while the next round computes and is used one round late, so "
     "no replica waits as long as a transfer takes no longer than a round. Because a late direction can overshoot, it "
     "counts the less the more the weights have just moved, and the momentum is clipped."},
    {"sparta",
     "Every {k} one of {n} slices of the weights is replaced by its average over the replicas, in turn. Little "
     "travels at a time, but everyone waits for it."},
    {"async_sparta",
     "Every {k} one of {n} slices of the weights leaves, and its average replaces what is there {d} later. Nobody "
     "waits, but what a replica learnt about that slice meanwhile is lost."},
    {"asyncmesh",
     "Every {k} one of {n} slices of the weights leaves, and {d} later its average lands; a running mean of how "
     "far replicas usually get in that time is added, so that late averages do not pull them back."},
    {"loscar",
     "Every {k} one of {n} slices of the weights leaves, and {d} later its average lands beside what the replica "
     "has learnt meanwhile. Nobody waits, and the wire is used evenly."},
    {"drip",
     "Every {k} one of {n} slices of the weights leaves, as the difference to what all agreed on, in few bits per "
     "number ({c}), and lands {d} later. What the bits cannot say is added the next time that slice leaves. Nobody"
     " waits, and the wire is used evenly."},
    {"one_bit_adam",
     "It starts like all_reduce with Adam. Once the size of the gradients has settled, Adam’s second moment is "
     "frozen, and from then on replicas exchange their momentum in one bit per number; what a bit cannot say is "
     "added to the next one."},
    {"one_bit_lamb",
     "It starts like all_reduce with LAMB, whose steps are in proportion to each tensor’s size. Once the size of "
     "the gradients has settled, replicas exchange their momentum in one bit per number, and each tensor’s step "
     "follows what can still be seen of its gradients."},
    {"zero_one_adam",
     "The gradients’ sizes are measured ever more rarely, and everything else travels in one bit per number from "
     "the first step; later the replicas also take ever more steps alone between two exchanges."},
};

std::string steps_text(int64_t n, const char* one) { return n == 1 ? one : fmt::format("{} steps", n); }

std::string text_of(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : toml_text(value);
}

}  // namespace

Traits traits_of(const StrategyOptions& o) {
  const Family family = family_of(o.name);
  return {.owns_rule = family == Family::one_bit,
          .averages_gradients = family == Family::all_reduce || family == Family::one_bit,
          .needs_global_norms = family != Family::one_bit,
          .round_steps = family == Family::periodic ? o.periodic.period : 1,
          .sentences = fmt::format(fmt::runtime(kSentences.at(o.name)), fmt::arg("p", o.periodic.period),
                                   fmt::arg("n", text_of(to_value(o.slices.slices))),
                                   fmt::arg("k", steps_text(o.slices.every, "step")),
                                   fmt::arg("d", o.slices.delay.automatic ? "as few steps as the link allows"
                                                                          : steps_text(o.slices.delay.steps, "a step")),
                                   fmt::arg("c", o.slices.codec.text))};
}

}  // namespace thinwire::dp
