#include "thinwire/comm/frames.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "thinwire/base/errors.h"

namespace thinwire::comm {
namespace {

at::Tensor copy_of(const void* from, size_t size) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(size)}, at::kByte);
  if (size > 0) std::memcpy(bytes.mutable_data_ptr(), from, size);
  return bytes;
}
at::Tensor copy_of(const std::string& text) {
  return copy_of(text.data(), std::min<size_t>(text.size(), Header::kMaxText));
}
std::string text_of(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()};
}

}  // namespace

void Frames::Peer::add(Frame frame) {
  if (!closed) queue.push_back(std::move(frame));
}
void Frames::Peer::add_ahead(Frame frame) {
  if (closed) return;
  auto at = queue.begin();  // nothing gets ahead of hello, nor into the middle of a frame
  while (at != queue.end() && (at->begun() || at->header.kind == Header::hello)) ++at;
  queue.insert(at, std::move(frame));
}

Frames::Frame Frames::frame_of(Header::Kind kind, int64_t tag, at::Tensor bytes) {
  const uint64_t size = bytes.defined() ? bytes.nbytes() : 0;
  return {.header = {.kind = kind, .tag = tag, .size = size}, .bytes = std::move(bytes)};
}
Frames::Frame Frames::lost(int rank, const std::string& why) { return frame_of(Header::lost, rank, copy_of(why)); }

Frames::Frames(int rank, int size, double timeout_s, const Identity& identity, std::function<void(int)> notify)
    : rank_(rank), identity_(identity), notify_(std::move(notify)), timeouts_(std::make_shared<Timeouts>(timeout_s)) {
  TORCH_CHECK(rank >= 0 && rank < size, "[comm] there is no rank ", rank, " among ", size);
  for (int peer = 0; peer < size; ++peer) {
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->closed = peer == rank;
    peers_.back()->add(frame_of(Header::hello, rank, copy_of(identity.host + "\n" + identity.build)));
  }
}

std::shared_ptr<Frames> Frames::make(int rank, int size, double timeout_s, const Identity& identity,
                                     std::function<void(int)> notify) {
  std::shared_ptr<Frames> frames(new Frames(rank, size, timeout_s, identity, std::move(notify)));
  frames->mailbox_ =
      std::make_shared<Mailbox>(rank, frames->timeouts_, [weak = std::weak_ptr(frames)](const Timeout& overdue) {
        if (auto all = weak.lock())
          all->end(frame_of(Header::late, all->silent(overdue.rank), copy_of(&overdue.seconds, sizeof overdue.seconds)),
                   true);
      });
  return frames;
}

WorkPtr Frames::send(at::Tensor bytes, int to, int64_t tag) {
  auto sent = std::make_shared<bool>(to == rank_);
  if (to == rank_) {
    mailbox_->deliver(rank_, tag, {.bytes = bytes.clone()});
    return mailbox_->sending(to, std::move(sent));
  }
  {
    Peer& peer = *peers_[to];
    Frame frame = frame_of(Header::data, tag, std::move(bytes));
    frame.sent = sent;
    std::lock_guard lock(peer.mutex);
    if (!over_) peer.add(std::move(frame));
  }
  notify_(to);
  return mailbox_->sending(to, std::move(sent));
}

void Frames::extend_timeouts_until(Clock::time_point when) {
  timeouts_->extend_timeouts_until(when);
  const auto now = Clock::now();
  {
    std::lock_guard lock(extension_mutex_);
    if (when <= now || when <= extended_) return;  // they know
    extended_ = when;
  }
  const int64_t nanoseconds = std::min<int64_t>((when - now).count(), Header::kLongestExtension);
  for (int to = 0; to < size(); ++to) {
    {
      std::lock_guard lock(peers_[to]->mutex);
      peers_[to]->add_ahead(frame_of(Header::extend, nanoseconds));
    }
    notify_(to);
  }
}

void Frames::fail(int rank, const std::string& why) {
  TORCH_CHECK(rank >= 0 && rank < size(), "[comm] there is no rank ", rank, " among ", size());
  end(lost(rank, why), true);
}

// The same on the rank that announces a failure and on those that hear of it.
Failure Frames::failure_of(const Header& header, const at::Tensor& bytes) const {
  const auto rank = static_cast<int>(header.tag);
  if (header.kind == Header::lost) {
    std::string host;
    mailbox_->look([&] {
      host = rank == rank_ ? identity_.host : peers_[rank]->host;
      return true;
    });
    return PeerLost(rank, text_of(bytes), host);
  }
  double seconds;
  std::memcpy(&seconds, bytes.const_data_ptr(), sizeof seconds);
  return Timeout(rank, seconds);
}

// Ends the world, the first time it is called. A wait that throws gives the sender its memory back, so by then none of
// it may be read any more: what was not begun is not sent, what was is copied, because the frame must come to an end.
void Frames::end(const Frame& why, bool announce) {
  if (over_.exchange(true)) return;
  for (int to = 0; to < size(); ++to) {
    {
      Peer& peer = *peers_[to];
      std::lock_guard lock(peer.mutex);
      std::erase_if(peer.queue, [](const Frame& f) { return f.header.kind == Header::data && !f.begun(); });
      for (Frame& frame : peer.queue)
        if (frame.begun() && frame.bytes.defined()) frame.bytes = frame.bytes.clone();
      if (announce) peer.add_ahead(why);
    }
    notify_(to);
  }
  mailbox_->fail(failure_of(why.header, why.bytes));
}

void Frames::await_hellos(double connect_s) {
  const auto until = Clock::now() + to_duration(connect_s);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_) continue;
    const auto here = [&] { return peers_[peer]->greeted; };
    for (uint64_t seen = mailbox_->changes(); !mailbox_->look(here) && Clock::now() < until; seen = mailbox_->changes())
      mailbox_->await_change(seen, until);
    if (!mailbox_->look(here)) end(frame_of(Header::late, peer, copy_of(&connect_s, sizeof connect_s)), true);
    mailbox_->await(peer, Clock::now(), here);  // throws what went wrong
  }
}

// The rank to blame: the one that has been silent for long, if there is one, else the one that was waited for.
int Frames::silent(int waited_for) const {
  auto oldest = Clock::now() - 2 * heartbeat_interval();
  mailbox_->look([&] {
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank_ && !peers_[peer]->left && peers_[peer]->heard.load() < oldest)
        oldest = peers_[peer]->heard, waited_for = peer;
    return true;
  });
  return waited_for;
}

Clock::duration Frames::heartbeat_interval() const { return to_duration(std::min(1.0, timeouts_->timeout_s / 8)); }

void Frames::heartbeat() {
  for (int to = 0; to < size(); ++to) {
    {
      Peer& peer = *peers_[to];
      std::lock_guard lock(peer.mutex);
      if (over_ || leaving_ || !peer.queue.empty()) continue;  // what is queued shows as much
      peer.add(frame_of(Header::heartbeat, 0));
    }
    notify_(to);
  }
}

void Frames::leave() {
  leaving_ = true;
  for (int to = 0; to < size(); ++to) {
    {
      std::lock_guard lock(peers_[to]->mutex);
      peers_[to]->add(frame_of(Header::goodbye, 0));
    }
    notify_(to);
  }
}

bool Frames::await_end(bool goodbyes, Clock::time_point until) {
  const auto written = [&](Peer& peer) {
    std::lock_guard lock(peer.mutex);
    return peer.queue.empty();
  };
  const auto finished = [&] {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      bool left = false, gone = false;
      mailbox_->look([&] {
        left = peers_[peer]->left, gone = peers_[peer]->gone;
        return true;
      });
      if (!gone && (!written(*peers_[peer]) || (goodbyes && !left))) return false;
    }
    return true;
  };
  for (;;) {
    const uint64_t seen = mailbox_->changes();
    if (finished()) return true;
    if (Clock::now() >= until) return false;
    mailbox_->await_change(seen, std::min(until, Clock::now() + std::chrono::milliseconds(50)));
  }
}

bool Frames::all_left() const {
  bool all = true;
  mailbox_->look([&] {
    for (int peer = 0; peer < size(); ++peer) all &= peer == rank_ || peers_[peer]->left;
    return true;
  });
  return all;
}

size_t Frames::next_bytes(int to, std::span<char> into) {
  Peer& peer = *peers_[to];
  std::vector<Frame> through;
  size_t filled = 0;
  {
    std::lock_guard lock(peer.mutex);
    const auto copy = [&](Frame& frame, const void* from, size_t begin, size_t size) {
      const size_t n = std::min(size - begin, into.size() - filled);
      if (n > 0) std::memcpy(into.data() + filled, static_cast<const char*>(from) + begin, n);
      filled += n, frame.written += n;
    };
    while (!peer.queue.empty() && filled < into.size()) {
      Frame& frame = peer.queue.front();
      if (frame.written < sizeof(Header)) copy(frame, &frame.header, frame.written, sizeof(Header));
      if (frame.written >= sizeof(Header) && frame.header.size > 0)
        copy(frame, frame.bytes.const_data_ptr(), frame.written - sizeof(Header), frame.header.size);
      if (frame.written < sizeof(Header) + frame.header.size) break;
      through.push_back(std::move(frame));
      peer.queue.pop_front();
    }
  }
  for (auto& frame : through) {
    frame.bytes.reset();  // before the sender hears of it
    mailbox_->notify([&] {
      if (frame.sent) *frame.sent = true;
    });
  }
  return filled;
}

bool Frames::take_bytes(int from, std::span<const char> bytes) {
  Peer& peer = *peers_[from];
  peer.heard = Clock::now();
  try {
    for (;;) {
      const bool in_header = peer.got < sizeof(Header);
      char* to = in_header ? reinterpret_cast<char*>(&peer.header) + peer.got
                           : static_cast<char*>(peer.bytes.mutable_data_ptr()) + (peer.got - sizeof(Header));
      const size_t missing = sizeof(Header) + (in_header ? 0 : peer.header.size) - peer.got;
      const size_t n = std::min(missing, bytes.size());
      if (n > 0) std::memcpy(to, bytes.data(), n);
      peer.got += n, bytes = bytes.subspan(n);
      if (n < missing) return true;
      if (in_header) {
        check(from, peer.header);
        peer.bytes = at::empty({static_cast<int64_t>(peer.header.size)}, at::kByte);
        if (peer.header.size > 0) continue;
      }
      peer.got = 0;
      if (peer.header.kind == Header::goodbye) {
        mailbox_->notify([&] { peer.left = true; });
        return false;
      }
      take(from, peer.header, std::move(peer.bytes));
    }
  } catch (const std::exception& error) {
    disconnect(from, one_line(error));
    return false;
  }
}

void Frames::check(int from, const Header& header) const {
  const int64_t tag = header.tag;
  const uint64_t size = header.size;
  const bool names_rank = tag >= 0 && tag < this->size(), greets = header.kind == Header::hello;
  bool greeted = false;
  mailbox_->look([&] {
    greeted = peers_[from]->greeted;
    return true;
  });
  const bool fine = header.magic == Header::kMagic && greets != greeted && [&] {
    switch (header.kind) {
      case Header::hello:
        return tag == from && size <= Header::kMaxText;
      case Header::data:
        return tag >= 0 && size <= Header::kMaxBytes;
      case Header::extend:
        return tag >= 0 && tag <= Header::kLongestExtension && size == 0;
      case Header::lost:
        return names_rank && size <= Header::kMaxText;
      case Header::late:
        return names_rank && size == sizeof(double);
      case Header::goodbye:
      case Header::heartbeat:
        return size == 0;
    }
    return false;
  }();
  if (!fine)
    throw std::runtime_error(fmt::format("it sent a frame that makes no sense: kind {}, tag {}, {} bytes",
                                         static_cast<uint32_t>(header.kind), tag, size));
}

void Frames::take(int from, const Header& header, at::Tensor bytes) {
  switch (header.kind) {
    case Header::hello:
      return greet(from, text_of(bytes));
    case Header::data:
      return mailbox_->deliver(from, header.tag, {.bytes = std::move(bytes)});
    case Header::extend:
      return timeouts_->extend_timeouts_until(Clock::now() + std::chrono::nanoseconds(header.tag));
    case Header::lost:
    case Header::late:
      return end({.header = header, .bytes = std::move(bytes)}, false);
    case Header::goodbye:
    case Header::heartbeat:
      return;
  }
}

void Frames::greet(int from, const std::string& text) {
  const size_t line = text.find('\n');
  mailbox_->notify([&] { peers_[from]->host = text.substr(0, line); });
  const std::string build = line == text.npos ? "" : text.substr(line + 1);
  if (build != identity_.build)
    throw std::runtime_error(
        fmt::format("it runs {}, rank {} runs {}: all ranks must run the same", build, rank_, identity_.build));
  mailbox_->notify([&] { peers_[from]->greeted = true; });
}

void Frames::disconnect(int from, const std::string& why) {
  Peer& peer = *peers_[from];
  {
    std::lock_guard lock(peer.mutex);
    peer.closed = true;
    peer.queue.clear();
  }
  bool left = false;
  mailbox_->notify([&] { peer.gone = true, left = peer.left; });
  if (!left) end(lost(from, why), true);
}

}  // namespace thinwire::comm
