#include "thinwire/comm/c10d.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <typeinfo>

#include "thinwire/base/errors.h"
#include "thinwire/comm/framed_transport.h"

namespace thinwire::comm {
namespace {

constexpr int kTag = 0;  // the group is ours alone, and streams keep their order
constexpr size_t kPacketBytes = 256 << 10;
constexpr size_t kWindow = 16;  // packets under way: 4 MiB a round trip, and of memory, for each peer and direction
constexpr auto kForever = std::chrono::hours(24 * 365);
constexpr const char* kClosed = "its connection closed";

struct PacketHeader {  // Gloo does not tell how much came
  static constexpr uint32_t kMagic = 0x54574750;
  uint32_t magic = kMagic, size = 0;
};

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using C10dWorkPtr = c10::intrusive_ptr<c10d::Work>;

struct Packet {
  at::Tensor bytes;
  C10dWorkPtr work;
  char* data() const { return static_cast<char*>(bytes.mutable_data_ptr()); }
};
at::Tensor packet_memory() { return at::empty({static_cast<int64_t>(sizeof(PacketHeader) + kPacketBytes)}, at::kByte); }

// Wakes the writers; outlives them, because Frames may notify to the last.
class Bells {
 public:
  explicit Bells(int size) : rung_(size) {}
  void ring(int peer) {
    {
      std::lock_guard lock(mutex_);
      rung_[peer] = true;
    }
    changed_.notify_all();
  }
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }
  // False once closed and silent.
  bool wait(int peer) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return rung_[peer] || closed_; });
    return std::exchange(rung_[peer], false);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<char> rung_;
  bool closed_ = false;
};

// Waits of one thread that another one can end.
class Interruptible {
 public:
  // False where it was ended.
  bool await(const C10dWorkPtr& work) {
    {
      std::lock_guard lock(mutex_);
      if (ended_) return false;
      awaited_ = work;
    }
    const bool came = work->wait(kForever);
    std::lock_guard lock(mutex_);
    awaited_.reset();
    return came && !ended_;
  }
  void end() {
    std::lock_guard lock(mutex_);
    ended_ = true;
    if (awaited_) awaited_->abort();
  }

 private:
  std::mutex mutex_;
  bool ended_ = false;
  C10dWorkPtr awaited_;
};

// To and from one peer, a thread each: Gloo has no way to wait for several works at once, and a wait that gives up
// ends all connections.
class Conversation {
 public:
  Conversation(std::shared_ptr<Frames> frames, std::shared_ptr<Bells> bells, BackendPtr backend, int peer)
      : frames_(std::move(frames)),
        bells_(std::move(bells)),
        backend_(std::move(backend)),
        peer_(peer),
        written_(std::async(std::launch::async, [this] { guarded([this] { write(); }); })),
        read_(std::async(std::launch::async, [this] { guarded([this] { read(); }); })) {}
  // After the bells were closed. What was sent is on its way then, unless its receiver is stuck.
  ~Conversation() {
    written_.wait_for(std::chrono::seconds(1));
    sends_.end(), recvs_.end();
    written_.wait(), read_.wait();
  }

 private:
  template <class F>
  void guarded(F work) {
    try {
      work();
    } catch (const std::exception&) {  // Gloo says the same in many words, other ones on every rank
      frames_->disconnect(peer_, kClosed);
    }
  }

  void write() {
    std::deque<Packet> sending;
    std::vector<at::Tensor> free;
    const auto await_oldest = [&] {
      if (!sends_.await(sending.front().work)) return false;
      free.push_back(std::move(sending.front().bytes));
      sending.pop_front();
      return true;
    };
    for (;;) {
      if (sending.size() == kWindow && !await_oldest()) return;
      if (free.empty()) free.push_back(packet_memory());
      Packet packet{.bytes = free.back(), .work = {}};
      const size_t size = frames_->next_bytes(peer_, {packet.data() + sizeof(PacketHeader), kPacketBytes});
      if (size == 0) {
        if (bells_->wait(peer_)) continue;
        break;
      }
      free.pop_back();
      const PacketHeader header{.size = static_cast<uint32_t>(size)};
      std::memcpy(packet.data(), &header, sizeof header);
      std::vector<at::Tensor> tensors = {packet.bytes.narrow(0, 0, static_cast<int64_t>(sizeof header + size))};
      packet.work = backend_->send(tensors, peer_, kTag);
      sending.push_back(std::move(packet));
    }
    while (!sending.empty() && await_oldest()) {
    }
  }

  void read() {
    std::deque<Packet> posted;
    const auto post = [&](at::Tensor memory) {
      std::vector<at::Tensor> tensors = {memory};
      posted.push_back({.bytes = std::move(memory), .work = backend_->recv(tensors, peer_, kTag)});
    };
    while (posted.size() < kWindow) post(packet_memory());
    for (;;) {
      Packet packet = std::move(posted.front());
      posted.pop_front();
      if (!recvs_.await(packet.work)) return;
      PacketHeader header;
      std::memcpy(&header, packet.data(), sizeof header);
      if (header.magic != PacketHeader::kMagic || header.size > kPacketBytes) {
        frames_->disconnect(peer_, fmt::format("it sent a packet that makes no sense, of {} bytes", header.size));
        return;
      }
      if (!frames_->take_bytes(peer_, {packet.data() + sizeof header, header.size})) return;
      post(std::move(packet.bytes));
    }
  }

  const std::shared_ptr<Frames> frames_;
  const std::shared_ptr<Bells> bells_;
  const BackendPtr backend_;
  const int peer_;
  Interruptible sends_, recvs_;
  std::future<void> written_, read_;
};

class C10dCarrier final : public Carrier {
 public:
  C10dCarrier(const std::shared_ptr<Frames>& frames, std::shared_ptr<Bells> bells, const BackendPtr& backend)
      : bells_(std::move(bells)) {
    for (int peer = 0; peer < frames->size(); ++peer)
      if (peer != frames->rank()) peers_.push_back(std::make_unique<Conversation>(frames, bells_, backend, peer));
  }
  ~C10dCarrier() override { bells_->close(); }

 private:
  const std::shared_ptr<Bells> bells_;
  std::vector<std::unique_ptr<Conversation>> peers_;
};

BackendPtr gloo_of(const std::string& name) {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  try {
    group = c10d::resolve_process_group(name);
  } catch (const std::exception& error) {
    TORCH_CHECK(false, "[comm] there is no c10d process group called '", name, "': ", one_line(error));
  }
  const c10d::ProcessGroup& object = *group;
  TORCH_CHECK(typeid(object) == typeid(c10d::ProcessGroup), "[comm] the process group '", name,
              "' is implemented in Python, which cannot be called from the engine's threads: pass a Gloo group "
              "(torch.distributed.new_group(backend=\"gloo\"))");
  BackendPtr backend;
  try {
    backend = group->getBackend(c10::DeviceType::CPU);
  } catch (const std::exception&) {  // none for the CPU
  }
  TORCH_CHECK(backend && backend->getBackendName() == "gloo", "[comm] the process group '", name,
              "' must be of Gloo for CPU tensors, it is of ", backend ? backend->getBackendName() : "another device",
              ": pass torch.distributed.new_group(backend=\"gloo\")");
  return backend;
}

}  // namespace

TransportPtr c10d_transport(const std::string& group_name, const C10dOptions& options) {
  const BackendPtr backend = gloo_of(group_name);
  auto bells = std::make_shared<Bells>(backend->getSize());
  auto frames = Frames::make(backend->getRank(), backend->getSize(), options.timeout_s, options.identity,
                             [bells](int peer) { bells->ring(peer); });
  return std::make_shared<FramedTransport>(
      std::move(frames),
      [&](const std::shared_ptr<Frames>& all) { return std::make_unique<C10dCarrier>(all, bells, backend); },
      options.connect_s);
}

}  // namespace thinwire::comm
