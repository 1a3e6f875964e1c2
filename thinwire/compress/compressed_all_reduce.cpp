#include "thinwire/compress/compressed_all_reduce.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <exception>
#include <mutex>

#include "thinwire/comm/executor.h"

namespace thinwire::compress {
namespace {

constexpr int64_t kBlock = 1024;

// [begin, begin + size) of the vector.
struct Range {
  int64_t begin, size;
};
Range range(int64_t n, int64_t chunk, int64_t k) {
  const int64_t begin = std::min(n, k * chunk);
  return {begin, std::min(chunk, n - begin)};
}

ValidCounts part(ValidCounts valid, const Range& r) {
  return valid.empty() ? valid : valid.subspan(r.begin / kBlock, (r.size + kBlock - 1) / kBlock);
}

std::span<uint8_t> message(const at::Tensor& bytes, int64_t k, int64_t stride, int64_t size) {
  return {bytes.mutable_data_ptr<uint8_t>() + k * stride, static_cast<size_t>(size)};
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
  at::Tensor sent, received, answer, answers;  // messages; those of short chunks end in zeros
  at::Tensor mean;                             // of the own chunk
  std::vector<int32_t> valid;
};

// What exchanges under way need; they may outlive the object that started them.
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
    const int64_t blocks = (n + kBlock - 1) / kBlock, m = group->size();
    return blocks > 1 ? (blocks + m - 1) / m * kBlock : n;
  }

  // A codec says about where; the numbers say exactly. values[0] is element `first` of the vector.
  [[noreturn]] void throw_non_finite(const Where& place, std::span<const float> values, int64_t about, int64_t first) {
    int64_t i = about;
    while (i < std::ssize(values) - 1 && std::isfinite(values[i])) ++i;
    std::lock_guard lock(mutex);
    TORCH_CHECK(false, "[compress.", codec->name(), "] ",
                place && !closed ? place(first + i) : fmt::format("element {}", first + i), " is ", values[i],
                ": a number that is not finite cannot be sent");
  }

  Buffers take_buffers(int64_t n) {
    {
      std::lock_guard lock(mutex);
      auto it = std::ranges::find(free, n, &Buffers::n);
      if (it != free.end()) {
        Buffers buffers = std::move(*it);
        free.erase(it);
        return buffers;
      }
    }
    const int64_t m = group->size(), size = codec->bytes(chunk(n));
    return {.n = n,
            .sent = at::zeros({m * size}, at::kByte),
            .received = at::empty({m * size}, at::kByte),
            .answer = at::zeros({size}, at::kByte),
            .answers = at::empty({m * size}, at::kByte),
            .mean = at::empty({range(n, chunk(n), group->rank()).size}, at::kFloat),
            .valid = {}};
  }
};

// One vector under way. The executor calls advance(): as the server of the own chunk as soon as everybody's has come,
// but not before the vectors that left earlier were served, since answers are matched by their order; then again when
// all answers have come.
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
  Clock::time_point look_again() const override { return Clock::time_point::max(); }  // its parts are tasks themselves

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
    const Codec& codec = *core->codec;
    Buffers& b = buffers;
    const int64_t m = core->group->size(), whole = core->chunk(b.n), stride = codec.bytes(whole);
    const Range own = range(b.n, whole, core->group->rank());
    const auto own_valid = part(b.valid, own);
    auto* mean = b.mean.mutable_data_ptr<float>();
    for (int64_t r = 0; r < m; ++r)
      codec.decode(message(b.received, r, stride, codec.bytes(own.size)), mean, own.size, own_valid, /*add=*/r > 0);
    b.mean.div_(static_cast<double>(m));
    const int64_t wrong =
        server_error.encode(mean, 0, own.size, own_valid, message(b.answer, 0, stride, codec.bytes(own.size)));
    if (wrong >= 0) core->throw_non_finite(where, {mean, static_cast<size_t>(own.size)}, wrong, own.begin);
    gathered = core->answers->all_gather(b.answers, b.answer);
  }

  void collect() {
    const Codec& codec = *core->codec;
    const int64_t m = core->group->size(), whole = core->chunk(buffers.n), stride = codec.bytes(whole);
    auto* out = x.mutable_data_ptr<float>();
    for (int64_t k = 0; k < m; ++k) {
      const Range r = range(buffers.n, whole, k);
      codec.decode(message(buffers.answers, k, stride, codec.bytes(r.size)), out + r.begin, r.size,
                   part(buffers.valid, r), /*add=*/false);
    }
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

Errors CompressedAllReduce::errors(int64_t n) const {
  return {.worker = {core_->codec, n}, .server = {core_->codec, range(n, core_->chunk(n), core_->group->rank()).size}};
}

void CompressedAllReduce::fold(Errors& errors) const {
  const int64_t n = errors.worker.error.numel();
  const Range own = range(n, core_->chunk(n), core_->group->rank());
  errors.worker.error.narrow(0, own.begin, own.size).add_(errors.server.error, core_->group->size());
  errors.server.reset();
}

comm::WorkPtr CompressedAllReduce::start(at::Tensor x, Errors& errors, ValidCounts valid, Where where) {
  TORCH_CHECK(x.is_contiguous() && x.scalar_type() == at::kFloat && x.device().is_cpu(),
              "[compress.all_reduce] wanted contiguous fp32 numbers on the CPU, got ", x.scalar_type());
  auto flight = std::make_shared<Flight>();
  const Codec& codec = *core_->codec;
  const int64_t n = x.numel(), m = core_->group->size(), whole = core_->chunk(n), stride = codec.bytes(whole);
  if (m == 1 || n == 0) {
    flight->finish(nullptr);
    return flight;
  }
  TORCH_CHECK(errors.worker.error.numel() == n, "[compress.all_reduce] ", n, " numbers came with the errors of ",
              errors.worker.error.numel());
  flight->core = core_;
  flight->buffers = core_->take_buffers(n);
  flight->buffers.valid.assign(valid.begin(), valid.end());
  flight->where = where ? where : core_->where;
  const std::span values(x.const_data_ptr<float>(), static_cast<size_t>(n));
  for (int64_t k = 0; k < m; ++k) {
    const Range r = range(n, whole, k);
    const int64_t wrong = errors.worker.encode(values.data() + r.begin, r.begin, r.size, part(valid, r),
                                               message(flight->buffers.sent, k, stride, codec.bytes(r.size)));
    if (wrong >= 0) core_->throw_non_finite(flight->where, values, r.begin + wrong, 0);
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
