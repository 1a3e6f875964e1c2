#include "thinwire/compress/compressed_all_reduce.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <mutex>

#include "thinwire/comm/executor.h"
#include "thinwire/kernels/threshold.h"

namespace thinwire::compress {
namespace {

using kernels::kBlock;
using kernels::Range;

Range range(int64_t n, int64_t chunk, int64_t k) {
  const int64_t at = std::min(n, k * chunk);
  return {at, std::min(chunk, n - at)};
}

// Nothing here has a gradient, and views that autograd does not look at cost less than half: there are many of them.
using WithoutAutograd = at::AutoDispatchBelowADInplaceOrView;

at::Tensor part(const at::Tensor& x, const Range& r) { return x.narrow(0, r.at, r.numel); }

ValidCounts valid_part(const ValidCounts& valid, const Range& r) {
  return valid.defined() ? valid.narrow(0, r.at / kBlock, kernels::blocks(r.numel)) : valid;
}

}  // namespace

void Errors::reset() { worker.reset(), server.reset(); }

void Errors::put(State& state, const std::string& prefix) const {
  state[prefix + "worker_error"] = {worker.error, Scope::per_replica};
  state[prefix + "server_error"] = {server.error, Scope::per_replica};
}

void Errors::get(const State& state, const std::string& prefix) {
  thinwire::get(state, prefix + "worker_error", worker.error);
  thinwire::get(state, prefix + "server_error", server.error);
}

struct CompressedAllReduce::Buffers {
  int64_t n = -1;
  at::Tensor sent, received, answer, answers;  // all messages; those of short chunks end in zeros
  struct Chunk {
    Range range;                          // of the vector
    at::Tensor sent, received, answered;  // to its server; the own chunk from this rank; from its server
  };
  std::vector<Chunk> chunks;  // by rank
  at::Tensor own_answer;
  at::Tensor mean;  // of the own chunk
  ValidCounts valid;
};

// What exchanges in flight need; they may outlive the object that started them.
struct CompressedAllReduce::Core {
  comm::GroupPtr group;
  comm::GroupPtr answers;  // the same ranks: what the executor sends must not mix with what the caller sends
  CodecPtr codec;
  Where where;
  std::mutex mutex;
  std::vector<Buffers> free;
  std::deque<const Flight*> unserved;  // in the order in which they were started, which is the same on all ranks
  bool closed = false;                 // places are not to be asked for any more
  std::exception_ptr broken;           // a vector could not be served: those after it cannot be matched any more

  int64_t chunk(int64_t n) const {  // elements of a whole chunk
    const int64_t blocks = kernels::blocks(n), m = group->size();
    return blocks > 1 ? (blocks + m - 1) / m * kBlock : n;
  }

  // A codec says about where; the numbers say exactly. values[0] is element `first` of the vector.
  [[noreturn]] void throw_non_finite(const Where& place, const at::Tensor& values, int64_t about, int64_t first) {
    const int64_t n = values.numel(),
                  found = kernels::first_reaching(values.narrow(0, about, n - about), kernels::kNotFinite),
                  i = about + std::max<int64_t>(0, found);  // none: only the sum with its error is too large
    std::lock_guard lock(mutex);
    TORCH_CHECK(false, "[compress.", codec->name(), "] ",
                place && !closed ? place(first + i) : fmt::format("element {}", first + i), " is ",
                values[i].item<float>(), ": a number that is not finite cannot be sent");
  }

  Buffers take_buffers(int64_t n, at::TensorOptions options) {
    {
      std::lock_guard lock(mutex);
      auto it = std::ranges::find(free, n, &Buffers::n);
      if (it != free.end()) {
        Buffers buffers = std::move(*it);
        free.erase(it);
        return buffers;
      }
    }
    const int64_t m = group->size(), stride = codec->bytes(chunk(n));
    const Range own = range(n, chunk(n), group->rank());
    const int64_t own_bytes = codec->bytes(own.numel);
    const auto bytes = options.dtype(at::kByte);
    Buffers b{.n = n,
              .sent = at::zeros({m * stride}, bytes),
              .received = at::empty({m * stride}, bytes),
              .answer = at::zeros({stride}, bytes),
              .answers = at::empty({m * stride}, bytes),
              .chunks = {},
              .own_answer = {},
              .mean = at::empty({own.numel}, options),
              .valid = {}};
    b.own_answer = b.answer.narrow(0, 0, own_bytes);
    for (int64_t k = 0; k < m; ++k) {
      const Range r = range(n, chunk(n), k);
      b.chunks.push_back({.range = r,
                          .sent = b.sent.narrow(0, k * stride, codec->bytes(r.numel)),
                          .received = b.received.narrow(0, k * stride, own_bytes),
                          .answered = b.answers.narrow(0, k * stride, codec->bytes(r.numel))});
    }
    return b;
  }
};

// One vector in flight. The executor calls advance(): as the server of the own chunk as soon as all of theirs have
// arrived, but not before the vectors that left earlier were served, since answers are matched by their order; then
// again when all answers have come.
struct CompressedAllReduce::Flight final : comm::Task {
  std::shared_ptr<Core> core;
  at::Tensor x;
  ErrorFeedback server_error;
  Where where;
  Buffers buffers;
  comm::WorkPtr scattered, gathered;

  bool advance() override {
    try {
      if (!gathered) {
        if (!scattered->done() || !is_next()) return false;
        if (core->broken) std::rethrow_exception(core->broken);
        scattered->wait();
        serve();
        served();
      }
      if (!gathered->done()) return false;
      gathered->wait();
      collect();
      finish(nullptr);
    } catch (...) {
      core->broken = std::current_exception();
      if (!gathered) served();
      finish(std::current_exception());
    }
    return true;
  }
  Clock::time_point next_poll() const override { return Clock::time_point::max(); }  // its parts are tasks themselves

  void finish(std::exception_ptr why) {
    x.reset();  // the caller's memory is freed by the caller, and so is its group
    where = nullptr;
    core = nullptr;
    complete(std::move(why));
  }

 private:
  bool is_next() const {
    std::lock_guard lock(core->mutex);
    return core->unserved.front() == this;
  }
  void served() {
    std::lock_guard lock(core->mutex);
    std::erase(core->unserved, this);
  }

  void serve() {
    const WithoutAutograd guard;
    const Codec& codec = *core->codec;
    Buffers& b = buffers;
    const Range own = b.chunks[core->group->rank()].range;
    const auto own_valid = valid_part(b.valid, own);
    for (const auto& chunk : b.chunks) codec.decode(chunk.received, b.mean, own_valid, /*add=*/&chunk != &b.chunks[0]);
    b.mean.div_(static_cast<double>(b.chunks.size()));
    const int64_t wrong = server_error.encode(b.mean, 0, b.own_answer, own_valid);
    if (wrong >= 0) core->throw_non_finite(where, b.mean, wrong, own.at);
    gathered = core->answers->all_gather(b.answers, b.answer);
  }

  void collect() {
    const WithoutAutograd guard;
    for (const auto& chunk : buffers.chunks)
      core->codec->decode(chunk.answered, part(x, chunk.range), valid_part(buffers.valid, chunk.range));
    buffers.valid.reset();
    std::lock_guard lock(core->mutex);
    core->free.push_back(std::move(buffers));
  }
};

CompressedAllReduce::CompressedAllReduce(comm::GroupPtr group, CodecPtr codec, Where where)
    : core_(std::make_shared<Core>()) {
  core_->answers = group->split(0, group->rank());
  core_->group = std::move(group);
  core_->codec = std::move(codec);
  core_->where = std::move(where);
}

CompressedAllReduce::~CompressedAllReduce() {
  std::lock_guard lock(core_->mutex);
  core_->closed = true;
}

int64_t CompressedAllReduce::bytes(int64_t n) const {
  return n > 0 ? 2 * (core_->group->size() - 1) * core_->codec->bytes(core_->chunk(n)) : 0;
}

Errors CompressedAllReduce::errors(int64_t n, at::TensorOptions options) const {
  const Range own = range(n, core_->chunk(n), core_->group->rank());
  return {.worker = {core_->codec, n, options}, .server = {core_->codec, own.numel, options}};
}

void CompressedAllReduce::fold(Errors& errors) const {
  const int64_t n = errors.worker.error.numel();
  const Range own = range(n, core_->chunk(n), core_->group->rank());
  part(errors.worker.error, own).add_(errors.server.error, core_->group->size());
  errors.server.reset();
}

comm::WorkPtr CompressedAllReduce::start(at::Tensor x, Errors& errors, const ValidCounts& valid, Where where) {
  TORCH_CHECK(x.dim() == 1 && x.is_contiguous() && x.scalar_type() == at::kFloat,
              "[compress.all_reduce] wanted a contiguous row of fp32 numbers, got ", x.scalar_type(), " ", x.sizes());
  auto flight = std::make_shared<Flight>();
  const int64_t n = x.numel();
  if (core_->group->size() == 1 || n == 0) {
    flight->finish(nullptr);
    return flight;
  }
  TORCH_CHECK(errors.worker.error.numel() == n, "[compress.all_reduce] ", n, " numbers came with the errors of ",
              errors.worker.error.numel());
  flight->core = core_;
  flight->buffers = core_->take_buffers(n, x.options());
  flight->buffers.valid = valid;
  flight->where = where ? where : core_->where;
  const WithoutAutograd guard;
  for (const auto& chunk : flight->buffers.chunks) {
    const Range& r = chunk.range;
    const int64_t wrong = errors.worker.encode(part(x, r), r.at, chunk.sent, valid_part(valid, r));
    if (wrong >= 0) core_->throw_non_finite(flight->where, x, r.at + wrong, 0);
  }
  flight->x = std::move(x);
  flight->server_error = errors.server;
  flight->scattered = core_->group->all_to_all(flight->buffers.received, flight->buffers.sent);
  {
    std::lock_guard lock(core_->mutex);
    core_->unserved.push_back(flight.get());
  }
  core_->group->executor().add(flight);
  return flight;
}

}  // namespace thinwire::compress
