#include "tests/comm/socket_transport.h"

#include <c10/util/Exception.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <tuple>

namespace thinwire::comm {
namespace {

constexpr size_t kAtOnce = 256 << 10;  // bytes that are copied out of frames
constexpr int kReadsAtOnce = 64;       // of one peer before the next one's turn
constexpr auto kLastWords = std::chrono::milliseconds(500);

class Bell {  // ends another thread's poll()
 public:
  Bell() : descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) { TORCH_CHECK(descriptor >= 0, std::strerror(errno)); }
  ~Bell() { ::close(descriptor); }
  Bell(const Bell&) = delete;
  void ring() { std::ignore = ::eventfd_write(descriptor, 1); }
  void silence() {
    eventfd_t rung;
    std::ignore = ::eventfd_read(descriptor, &rung);
  }
  const int descriptor;
};

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

class SocketCarrier final : public Carrier {
 public:
  SocketCarrier(std::shared_ptr<Frames> frames, std::shared_ptr<Bell> bell, const std::vector<int>& sockets)
      : frames_(std::move(frames)), to_write_(std::move(bell)) {
    for (int peer = 0; peer < frames_->size(); ++peer)
      if (peer != frames_->rank()) peers_.push_back(std::make_unique<Peer>(peer, sockets[peer]));
    writing_ = std::thread([this] { write_all(); });
    reading_ = std::thread([this] { read_all(); });
  }
  ~SocketCarrier() override {
    closing_ = true;
    to_write_->ring(), to_read_.ring();
    writing_.join(), reading_.join();
    for (auto& peer : peers_) ::close(peer->socket);
  }

 private:
  struct Peer {
    Peer(int rank, int socket) : rank(rank), socket(socket) {}
    const int rank, socket;
    // Of the thread that writes.
    std::vector<char> buffer = std::vector<char>(kAtOnce);
    size_t filled = 0, written = 0;
    bool writable = true;
    // Of the thread that reads.
    bool readable = true;
  };

  void write_all() {
    for (auto give_up = Clock::time_point::max(); Clock::now() < give_up;) {
      std::vector<pollfd> ready = {{to_write_->descriptor, POLLIN, 0}};
      for (auto& peer : peers_)
        if (!write(*peer)) ready.push_back({peer->socket, POLLOUT, 0});
      if (closing_ && ready.size() == 1) return;
      if (closing_) give_up = std::min(give_up, Clock::now() + kLastWords);
      ::poll(ready.data(), ready.size(), closing_ ? 10 : -1);
      to_write_->silence();
    }
  }

  // Until there is nothing more to write, or false: until nothing more can be written.
  bool write(Peer& peer) {
    while (peer.writable) {
      if (peer.written == peer.filled) {
        peer.written = 0, peer.filled = frames_->next_bytes(peer.rank, peer.buffer);
        if (peer.filled == 0) return true;
      }
      const ssize_t n = ::send(peer.socket, peer.buffer.data() + peer.written, peer.filled - peer.written,
                               MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n < 0 && try_again()) return false;
      if (n < 0) peer.writable = false;  // whether that is a failure, the reader finds out
      peer.written += std::max<ssize_t>(n, 0);
    }
    while (frames_->next_bytes(peer.rank, peer.buffer) > 0) {  // to nobody
    }
    return true;
  }

  void read_all() {
    while (!closing_) {
      std::vector<pollfd> ready = {{to_read_.descriptor, POLLIN, 0}};
      std::vector<Peer*> whose = {nullptr};
      for (auto& peer : peers_)
        if (peer->readable) ready.push_back({peer->socket, POLLIN, 0}), whose.push_back(peer.get());
      ::poll(ready.data(), ready.size(), -1);
      for (size_t i = 1; i < ready.size(); ++i)
        for (int reads = 0; ready[i].revents && reads < kReadsAtOnce && read(*whose[i]); ++reads) {
        }
    }
  }

  // Whether there was something, and more may come.
  bool read(Peer& peer) {
    char buffer[64 << 10];
    const ssize_t n = ::recv(peer.socket, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && try_again()) return false;
    if (n <= 0) {
      peer.readable = false;
      frames_->disconnect(peer.rank, n == 0 || errno == ECONNRESET ? "its connection closed" : std::strerror(errno));
    } else {
      peer.readable = frames_->take_bytes(peer.rank, {buffer, static_cast<size_t>(n)});
    }
    return peer.readable;
  }

  const std::shared_ptr<Frames> frames_;
  const std::shared_ptr<Bell> to_write_;
  Bell to_read_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<bool> closing_ = false;
  std::thread writing_, reading_;
};

}  // namespace

std::shared_ptr<FramedTransport> connect_sockets(int rank, const std::vector<int>& sockets, double timeout_s,
                                                 double connect_s, const Identity& identity) {
  const auto bell = std::make_shared<Bell>();
  auto frames =
      Frames::make(rank, static_cast<int>(sockets.size()), timeout_s, identity, [bell](int) { bell->ring(); });
  return std::make_shared<FramedTransport>(
      std::move(frames),
      [&](const std::shared_ptr<Frames>& all) { return std::make_unique<SocketCarrier>(all, bell, sockets); },
      connect_s, Departure{.awaits_goodbyes = false});  // what is in a socket is read after its writer has gone
}

}  // namespace thinwire::comm
