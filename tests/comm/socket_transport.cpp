#include "tests/comm/socket_transport.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <tuple>

#include "thinwire/base/errors.h"

namespace thinwire::comm {
namespace {

constexpr size_t kAtOnce = 256 << 10;  // bytes that are written under the lock
constexpr int kReadsAtOnce = 64;       // of one peer before the next one's turn

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

struct Frame {
  Frame(Header::Kind kind, int64_t tag, at::Tensor bytes = {}, std::shared_ptr<bool> sent = {})
      : header{.kind = kind, .tag = tag, .size = bytes.defined() ? bytes.nbytes() : 0},
        bytes(std::move(bytes)),
        sent(std::move(sent)) {}
  bool begun() const { return written > 0; }

  Header header;
  at::Tensor bytes;            // undefined where there are none
  std::shared_ptr<bool> sent;  // guarded by the mailbox; null where nobody waits
  size_t written = 0;
};

at::Tensor copy_of(const void* from, size_t size) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(size)}, at::kByte);
  if (size > 0) std::memcpy(bytes.mutable_data_ptr(), from, size);
  return bytes;
}

Frame lost(int rank, const std::string& why) {
  return {Header::lost, rank, copy_of(why.data(), std::min<size_t>(why.size(), Header::kMostWords))};
}
Frame late(int rank, double seconds) { return {Header::late, rank, copy_of(&seconds, sizeof seconds)}; }

// The same on the rank that tells and on those that are told.
Failure failure_of(const Header& header, const at::Tensor& bytes) {
  const auto rank = static_cast<int>(header.tag);
  if (header.kind == Header::lost)
    return PeerLost(rank, {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  double seconds;
  std::memcpy(&seconds, bytes.const_data_ptr(), sizeof seconds);
  return Timeout(rank, seconds);
}

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

class SocketTransport::Writer {
 public:
  Writer(int rank, const std::vector<int>& sockets, double timeout_s) : timeout_s_(timeout_s) {
    for (int peer = 0; peer < static_cast<int>(sockets.size()); ++peer)
      peers_.push_back({.socket = sockets[peer], .closed = peer == rank});
  }
  void start(int rank, MailboxPtr mailbox) {
    mailbox_ = std::move(mailbox);
    std::vector<Frame> greetings;
    for (auto& peer : peers_) {  // an empty socket has room for it, and nothing may get ahead of it
      peer.add({Header::hello, rank});
      write(peer, greetings);
    }
    thread_ = std::thread([this] { run(); });
  }

  void send(int to, Frame frame) {
    {
      std::lock_guard lock(mutex_);
      if (!over_) peers_[to].add(std::move(frame));
    }
    bell_.ring();
  }

  void excuse_until(Clock::time_point when) {
    const auto now = Clock::now();
    {
      std::lock_guard lock(mutex_);
      if (when <= now || when <= excused_) return;  // they know
      excused_ = when;
      for (auto& peer : peers_)
        peer.add_ahead({Header::excuse, std::min<int64_t>((when - now).count(), Header::kLongestExcuse)});
    }
    bell_.ring();
  }

  // Ends the world, the first time it is called. A wait that throws gives the sender its memory back, so by then none
  // of it may be read any more: what was not begun is not sent, what was is copied, because the frame must come to an
  // end.
  void end(const Frame& why, bool tell) {
    {
      std::lock_guard lock(mutex_);
      if (over_) return;
      over_ = true;
      for (auto& peer : peers_) {
        std::erase_if(peer.queue, [](const Frame& f) { return f.header.kind == Header::data && !f.begun(); });
        if (!peer.queue.empty() && peer.queue.front().begun() && peer.queue.front().bytes.defined())
          peer.queue.front().bytes = peer.queue.front().bytes.clone();
        if (tell) peer.add_ahead(why);
      }
    }
    bell_.ring();
    mailbox_->fail(failure_of(why.header, why.bytes));
  }

  void close() {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
      give_up_ = Clock::now() + to_duration(timeout_s_);
      for (auto& peer : peers_) peer.add({Header::goodbye, 0});
    }
    bell_.ring();
    thread_.join();
  }

 private:
  struct Peer {
    void add(Frame frame) {
      if (!closed) queue.push_back(std::move(frame));
    }
    void add_ahead(Frame frame) {
      if (!closed) queue.insert(queue.begin() + (!queue.empty() && queue.front().begun()), std::move(frame));
    }
    int socket;
    bool closed;  // nobody reads there; whether that is a failure, the reader finds out
    std::deque<Frame> queue = {};
  };

  void run() {
    for (;;) {
      std::vector<pollfd> ready = {{bell_.descriptor, POLLIN, 0}};
      std::vector<Frame> through;
      int wait_ms = -1;
      bool finished;
      {
        std::lock_guard lock(mutex_);
        for (auto& peer : peers_) {
          write(peer, through);
          if (!peer.queue.empty()) ready.push_back({peer.socket, POLLOUT, 0});
        }
        if (closing_) wait_ms = static_cast<int>(std::clamp(1e3 * seconds_between(Clock::now(), give_up_), 0.0, 1e6));
        finished = closing_ && (ready.size() == 1 || wait_ms == 0);
      }
      for (auto& frame : through) {
        frame.bytes.reset();  // before the sender hears of it
        if (frame.sent) mailbox_->notify([&] { *frame.sent = true; });
      }
      if (finished) return;
      ::poll(ready.data(), ready.size(), wait_ms);
      bell_.silence();
    }
  }

  static void write(Peer& peer, std::vector<Frame>& through) {
    for (size_t left = kAtOnce; left > 0 && !peer.queue.empty();) {
      Frame& frame = peer.queue.front();
      const size_t size = frame.header.size, head = std::min(frame.written, sizeof(Header)),
                   body = frame.written - head;
      iovec parts[] = {{reinterpret_cast<char*>(&frame.header) + head, sizeof(Header) - head}, {nullptr, 0}};
      if (size > body)
        parts[1] = {const_cast<char*>(static_cast<const char*>(frame.bytes.const_data_ptr())) + body,
                    std::min(size - body, left)};
      msghdr message = {};
      message.msg_iov = parts, message.msg_iovlen = 2;
      const ssize_t written = ::sendmsg(peer.socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (written < 0) {
        if (try_again()) return;
        peer.closed = true;
        peer.queue.clear();
        return;
      }
      frame.written += written;
      left -= std::min<size_t>(left, written);
      if (frame.written < sizeof(Header) + size) continue;
      through.push_back(std::move(frame));
      peer.queue.pop_front();
    }
  }

  const double timeout_s_;
  MailboxPtr mailbox_;
  Bell bell_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  Clock::time_point excused_ = Clock::time_point::min();  // as far as the others were told
  bool over_ = false, closing_ = false;
  Clock::time_point give_up_;
  std::thread thread_;
};

class SocketTransport::Reader {
 public:
  Reader(int rank, const std::vector<int>& sockets, PatiencePtr patience, MailboxPtr mailbox,
         std::shared_ptr<Writer> writer)
      : greeted(sockets.size()),
        ranks_(static_cast<int>(sockets.size())),
        patience_(std::move(patience)),
        mailbox_(std::move(mailbox)),
        writer_(std::move(writer)) {
    for (int peer = 0; peer < ranks_; ++peer)
      peers_.push_back({.rank = peer, .socket = sockets[peer], .open = peer != rank});
    thread_ = std::thread([this] { run(); });
  }
  ~Reader() {
    closing_ = true;
    bell_.ring();
    thread_.join();
  }

  std::vector<char> greeted;  // who has said hello; guarded by the mailbox

 private:
  struct Peer {
    int rank, socket;
    bool open;  // something may still come
    Header header = {};
    size_t got = 0;  // of the frame that is coming in
    at::Tensor bytes = {};
  };

  void run() {
    while (!closing_) {
      std::vector<pollfd> ready = {{bell_.descriptor, POLLIN, 0}};
      std::vector<Peer*> whose = {nullptr};
      for (auto& peer : peers_)
        if (peer.open) ready.push_back({peer.socket, POLLIN, 0}), whose.push_back(&peer);
      ::poll(ready.data(), ready.size(), -1);
      for (size_t i = 1; i < ready.size(); ++i)
        if (ready[i].revents) read(*whose[i]);
    }
  }

  void read(Peer& peer) {
    try {
      for (int i = 0; i < kReadsAtOnce && peer.open && read_some(peer); ++i) {
      }
    } catch (const std::exception& error) {
      peer.open = false;
      writer_->end(lost(peer.rank, one_line(error)), true);
    }
  }

  // Whether there was something.
  bool read_some(Peer& peer) {
    const bool in_header = peer.got < sizeof(Header);
    char* to = in_header ? reinterpret_cast<char*>(&peer.header) + peer.got
                         : static_cast<char*>(peer.bytes.mutable_data_ptr()) + (peer.got - sizeof(Header));
    const size_t missing = sizeof(Header) + (in_header ? 0 : peer.header.size) - peer.got;
    const ssize_t came = ::recv(peer.socket, to, missing, MSG_DONTWAIT);
    if (came < 0 && try_again()) return false;
    if (came == 0 || (came < 0 && errno == ECONNRESET)) throw std::runtime_error("its connection closed");
    if (came < 0) throw std::runtime_error(std::strerror(errno));
    peer.got += came;
    if (static_cast<size_t>(came) < missing) return true;
    if (in_header) {
      check(peer);
      peer.bytes = at::empty({static_cast<int64_t>(peer.header.size)}, at::kByte);
      if (peer.header.size > 0) return true;
    }
    peer.got = 0;
    take(peer, std::move(peer.bytes));
    return true;
  }

  void check(const Peer& peer) const {
    const auto kind = peer.header.kind;
    const int64_t tag = peer.header.tag;
    const uint64_t size = peer.header.size;
    const bool names_rank = tag >= 0 && tag < ranks_, greets = kind == Header::hello;
    const bool fine = peer.header.magic == Header::kMagic && greets != static_cast<bool>(greeted[peer.rank]) && [&] {
      switch (kind) {
        case Header::hello:
          return tag == peer.rank && size == 0;
        case Header::data:
          return tag >= 0 && size <= Header::kMostBytes;
        case Header::excuse:
          return tag >= 0 && tag <= Header::kLongestExcuse && size == 0;
        case Header::lost:
          return names_rank && size <= Header::kMostWords;
        case Header::late:
          return names_rank && size == sizeof(double);
        case Header::goodbye:
          return size == 0;
      }
      return false;
    }();
    if (!fine)
      throw std::runtime_error(fmt::format("it sent a frame that makes no sense: kind {}, tag {}, {} bytes",
                                           static_cast<uint32_t>(kind), tag, size));
  }

  void take(Peer& peer, at::Tensor bytes) {
    const Header& header = peer.header;
    switch (header.kind) {
      case Header::hello:
        return mailbox_->notify([&] { greeted[peer.rank] = true; });
      case Header::data:
        return mailbox_->deliver(peer.rank, header.tag, {.bytes = std::move(bytes)});
      case Header::excuse:
        return patience_->excuse_until(Clock::now() + std::chrono::nanoseconds(header.tag));
      case Header::lost:
      case Header::late:
        return writer_->end({header.kind, header.tag, std::move(bytes)}, false);
      case Header::goodbye:
        peer.open = false;
    }
  }

  const int ranks_;
  const PatiencePtr patience_;
  const MailboxPtr mailbox_;
  const std::shared_ptr<Writer> writer_;
  Bell bell_;
  std::vector<Peer> peers_;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

std::shared_ptr<SocketTransport> SocketTransport::connect(int rank, const std::vector<int>& sockets, double timeout_s,
                                                          double connect_s) {
  std::shared_ptr<SocketTransport> transport(new SocketTransport(rank, sockets, timeout_s));
  transport->await_all(connect_s);
  return transport;
}

SocketTransport::SocketTransport(int rank, const std::vector<int>& sockets, double timeout_s)
    : rank_(rank),
      size_(static_cast<int>(sockets.size())),
      sockets_(sockets),
      patience_(std::make_shared<Patience>(timeout_s)),
      writer_(std::make_shared<Writer>(rank, sockets, timeout_s)),
      mailbox_(std::make_shared<Mailbox>(rank, patience_, [writer = std::weak_ptr(writer_)](const Timeout& overdue) {
        if (auto told = writer.lock()) told->end(late(overdue.rank, overdue.seconds), true);
      })) {
  TORCH_CHECK(rank >= 0 && rank < size_, "[comm] there is no rank ", rank, " among ", size_);
  writer_->start(rank, mailbox_);
  reader_ = std::make_unique<Reader>(rank, sockets, patience_, mailbox_, writer_);
}

SocketTransport::~SocketTransport() {
  writer_->close();
  reader_.reset();
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) ::close(sockets_[peer]);
}

void SocketTransport::await_all(double connect_s) {
  const auto until = Clock::now() + to_duration(connect_s);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const auto here = [&] { return static_cast<bool>(reader_->greeted[peer]); };
    for (uint64_t seen = changes(); !mailbox_->look(here) && Clock::now() < until; seen = changes())
      mailbox_->await_change(seen, until);
    if (!mailbox_->look(here)) writer_->end(late(peer, connect_s), true);
    mailbox_->await(peer, Clock::now(), here);  // throws what went wrong
  }
}

void SocketTransport::check(const at::Tensor& bytes, int peer, int64_t tag) const {
  TORCH_CHECK(bytes.is_contiguous() && bytes.device().is_cpu(), "[comm] a message is a contiguous CPU tensor");
  TORCH_CHECK(bytes.nbytes() <= Header::kMostBytes, "[comm] a message of ", bytes.nbytes(), " bytes is too long");
  TORCH_CHECK(peer >= 0 && peer < size_, "[comm] there is no rank ", peer, " among ", size_);
  TORCH_CHECK(tag >= 0, "[comm] a tag is not negative, got ", tag);
}

WorkPtr SocketTransport::send(at::Tensor bytes, int to, int64_t tag) {
  check(bytes, to, tag);
  auto sent = std::make_shared<bool>(to == rank_);
  if (to == rank_)
    mailbox_->deliver(rank_, tag, {.bytes = bytes.clone()});
  else
    writer_->send(to, {Header::data, tag, std::move(bytes), sent});
  return mailbox_->sending(to, std::move(sent));
}

ReceiptPtr SocketTransport::recv(at::Tensor bytes, int from, int64_t tag) {
  check(bytes, from, tag);
  return mailbox_->recv(std::move(bytes), from, tag);
}

void SocketTransport::fail(int rank, const std::string& why) {
  TORCH_CHECK(rank >= 0 && rank < size_, "[comm] there is no rank ", rank, " among ", size_);
  writer_->end(lost(rank, why), true);
}

void SocketTransport::excuse_until(Clock::time_point when) {
  patience_->excuse_until(when);
  writer_->excuse_until(when);
}

void SocketTransport::sleep_until(Clock::time_point when) {
  excuse_until(when);
  mailbox_->sleep_until(when);
}

}  // namespace thinwire::comm
