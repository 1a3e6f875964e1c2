#include "thinwire/compress/mean.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "thinwire/comm/completion.h"

namespace thinwire::compress {
namespace {

constexpr int64_t kBlock = 1024;

// [begin, begin + size) of the vector, and which block it starts with.
struct Range {
  int64_t begin, size;
};
Range range(int64_t n, int64_t chunk, int64_t k) {
  const int64_t begin = std::min(n, k * chunk);
  return {begin, std::min(chunk, n - begin)};
}

Filled part(Filled filled, const Range& r) {
  return filled.empty() ? filled : filled.subspan(r.begin / kBlock, (r.size + kBlock - 1) / kBlock);
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

struct Mean::Buffers {
  int64_t n = -1;
  at::Tensor sent, received, answer, answers;  // messages; those of short chunks end in zeros
  at::Tensor mean;                             // of the own chunk
};

struct Mean::Flight final : comm::Completion {
  at::Tensor x;
  Errors* errors = nullptr;
  Filled filled;
  Where where;
  Buffers buffers;
  comm::WorkPtr scattered, gathered;

  void finish(std::exception_ptr why) {
    x.reset();  // the caller's memory is freed by the caller
    complete(std::move(why));
  }
};

Mean::Mean(comm::GroupPtr group, CodecPtr codec, Where where)
    : group_(std::move(group)),
      answers_(group_->split(0, group_->rank())),
      codec_(std::move(codec)),
      where_(std::move(where)) {
  for (comm::Lane* lane : {&serving_, &collecting_})
    lane->add([threads = at::get_num_threads()] { at::set_num_threads(threads); });
}

Mean::~Mean() = default;

int64_t Mean::chunk(int64_t n) const {
  const int64_t blocks = (n + kBlock - 1) / kBlock, m = group_->size();
  return blocks > 1 ? (blocks + m - 1) / m * kBlock : n;
}

int64_t Mean::bytes(int64_t n) const { return n > 0 ? 2 * (group_->size() - 1) * codec_->bytes(chunk(n)) : 0; }

Errors Mean::errors(int64_t n) const {
  return {.worker = {codec_, n}, .server = {codec_, range(n, chunk(n), group_->rank()).size}};
}

void Mean::fold(Errors& errors) const {
  const int64_t n = errors.worker.error.numel();
  const Range own = range(n, chunk(n), group_->rank());
  errors.worker.error.narrow(0, own.begin, own.size).add_(errors.server.error, group_->size());
  errors.server.reset();
}

// A codec says about where; the numbers say exactly.
void Mean::refuse(const Where& where, const float* values, int64_t from, int64_t n) const {
  int64_t at = from;
  while (at < n - 1 && std::isfinite(values[at])) ++at;
  TORCH_CHECK(false, "[compress.", codec_->name(), "] ", where ? where(at) : fmt::format("element {}", at), " is ",
              values[at], ": a number that is not finite cannot be sent");
}

Mean::Buffers Mean::take_buffers(int64_t n) {
  {
    std::lock_guard lock(mutex_);
    auto it = std::ranges::find(free_, n, &Buffers::n);
    if (it != free_.end()) {
      Buffers buffers = std::move(*it);
      free_.erase(it);
      return buffers;
    }
  }
  const int64_t m = group_->size(), size = codec_->bytes(chunk(n));
  return {.n = n,
          .sent = at::zeros({m * size}, at::kByte),
          .received = at::empty({m * size}, at::kByte),
          .answer = at::zeros({size}, at::kByte),
          .answers = at::empty({m * size}, at::kByte),
          .mean = at::empty({range(n, chunk(n), group_->rank()).size}, at::kFloat)};
}

comm::WorkPtr Mean::start(at::Tensor x, Errors& errors, Filled filled, Where where) {
  TORCH_CHECK(x.is_contiguous() && x.scalar_type() == at::kFloat && x.device().is_cpu(),
              "[compress.mean] wanted contiguous fp32 numbers on the CPU, got ", x.scalar_type());
  auto flight = std::make_shared<Flight>();
  const int64_t n = x.numel(), m = group_->size(), whole = chunk(n), stride = codec_->bytes(whole);
  if (m == 1 || n == 0) {
    flight->finish(nullptr);
    return flight;
  }
  TORCH_CHECK(errors.worker.error.numel() == n, "[compress.mean] ", n, " numbers came with the errors of ",
              errors.worker.error.numel());
  flight->buffers = take_buffers(n);
  flight->where = where ? where : where_;
  const float* values = x.const_data_ptr<float>();
  for (int64_t k = 0; k < m; ++k) {
    const Range r = range(n, whole, k);
    const int64_t wrong = errors.worker.encode(values + r.begin, r.begin, r.size, part(filled, r),
                                               message(flight->buffers.sent, k, stride, codec_->bytes(r.size)));
    if (wrong >= 0) refuse(flight->where, values, r.begin + wrong, n);
  }
  flight->x = std::move(x);
  flight->errors = &errors;
  flight->filled = filled;
  flight->scattered = group_->all_to_all(flight->buffers.received, flight->buffers.sent);
  serving_.add([this, flight] {
    try {
      serve(*flight);
    } catch (...) {
      return flight->finish(std::current_exception());
    }
    collecting_.add([this, flight] {
      try {
        collect(*flight);
        flight->finish(nullptr);
      } catch (...) {
        flight->finish(std::current_exception());
      }
    });
  });
  return flight;
}

void Mean::serve(Flight& flight) {
  Buffers& b = flight.buffers;
  const int64_t m = group_->size(), whole = chunk(b.n), stride = codec_->bytes(whole);
  const Range own = range(b.n, whole, group_->rank());
  const auto own_filled = part(flight.filled, own);
  flight.scattered->wait();
  float* mean = b.mean.mutable_data_ptr<float>();
  for (int64_t r = 0; r < m; ++r)
    codec_->decode(message(b.received, r, stride, codec_->bytes(own.size)), mean, own.size, own_filled, /*add=*/r > 0);
  b.mean.div_(static_cast<double>(m));
  const int64_t wrong = flight.errors->server.encode(mean, 0, own.size, own_filled,
                                                     message(b.answer, 0, stride, codec_->bytes(own.size)));
  if (wrong >= 0) refuse(flight.where, mean - own.begin, own.begin + wrong, own.begin + own.size);
  flight.gathered = answers_->all_gather(b.answers, b.answer);
}

void Mean::collect(Flight& flight) {
  Buffers& b = flight.buffers;
  const int64_t m = group_->size(), whole = chunk(b.n), stride = codec_->bytes(whole);
  flight.gathered->wait();
  float* x = flight.x.mutable_data_ptr<float>();
  for (int64_t k = 0; k < m; ++k) {
    const Range r = range(b.n, whole, k);
    codec_->decode(message(b.answers, k, stride, codec_->bytes(r.size)), x + r.begin, r.size, part(flight.filled, r),
                   /*add=*/false);
  }
  std::lock_guard lock(mutex_);
  free_.push_back(std::move(b));
}

}  // namespace thinwire::compress
