#include "thinwire/kernels/outer.h"

#include <type_traits>

#include "thinwire/kernels/clones.h"
#include "thinwire/kernels/memory.h"
#include "thinwire/kernels/tasks.h"

namespace thinwire::kernels {
namespace {

// Parts that stay in the first-level cache, so that the squares of the moves are summed without a second pass.
constexpr int64_t kPart = 512;

template <bool kApply, bool kTurn, bool kNesterov, bool kMomentum, bool kStart>
THINWIRE_INLINE void block(float* __restrict x, float* __restrict z, float* __restrict v, float* __restrict a,
                           float* __restrict start, float* __restrict move, int64_t n, const OuterStep& s) {
  const float decay = s.decay, scale = s.scale, bound = s.bound, rate = s.rate, beta = s.beta, keep = s.keep;
  for (int64_t i = 0; i < n; ++i) {
    const float before = z[i];
    float after = before;
    if constexpr (kApply) {
      const float scaled = scale * a[i];
      float momentum = scaled;
      if constexpr (kMomentum) momentum = decay * v[i] + scaled;
      momentum = momentum > bound ? bound : momentum;
      momentum = momentum < -bound ? -bound : momentum;
      if constexpr (kMomentum) v[i] = momentum;
      move[i] = kNesterov ? rate * (beta * momentum + scaled) : rate * momentum;
      after = before + move[i];
      z[i] = after;
    }
    if constexpr (kTurn) {
      const float progress = x[i] - (kStart ? start[i] : before);
      a[i] = progress;
      if constexpr (kStart) start[i] = after + keep * progress;
      x[i] = kStart ? after + keep * progress : after;
    } else {
      x[i] = after;
    }
  }
}

// Calls f with the flag as a type, so that the loop it holds has no branches. Inlined, so that each clone has its own.
template <class F>
THINWIRE_INLINE void choose(bool flag, F&& f) {
  if (flag)
    f(std::true_type{});
  else
    f(std::false_type{});
}

struct Pointers {
  float *x, *z, *v, *a, *start;
};

THINWIRE_CLONES double task(const Pointers& b, int64_t begin, int64_t end, const OuterStep& s) {
  Lanes lanes;
  float move[kPart] = {};
  for (int64_t at = begin; at < end; at += kPart) {
    const int64_t n = std::min(kPart, end - at);
    float *x = b.x + at, *z = b.z + at, *a = b.a + at;
    float *v = b.v ? b.v + at : nullptr, *start = b.start ? b.start + at : nullptr;
    choose(
        s.apply, [&](auto apply) __attribute__((always_inline)) {
          choose(
              s.launch, [&](auto launch) __attribute__((always_inline)) {
                choose(
                    s.nesterov, [&](auto nesterov) __attribute__((always_inline)) {
                      choose(
                          v != nullptr, [&](auto momentum) __attribute__((always_inline)) {
                            choose(
                                start != nullptr, [&](auto starts) __attribute__((always_inline)) {
                                  block<apply(), launch(), nesterov(), momentum(), starts()>(x, z, v, a, start, move, n,
                                                                                             s);
                                });
                          });
                    });
              });
        });
    if (s.apply) lanes.add(move, n);
  }
  return lanes.total();
}

}  // namespace

double outer_update(const OuterBuffers& b, Range range, const OuterStep& step) {
  const Pointers p{out(b.x, range), out(b.z, range), out_if(b.v, range), out(b.a, range), out_if(b.start, range)};
  return sum_tasks(range.numel, [&](int64_t begin, int64_t end) { return task(p, begin, end, step); });
}

}  // namespace thinwire::kernels
