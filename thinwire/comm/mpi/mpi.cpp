#include "thinwire/comm/mpi/mpi.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <mpi.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <future>
#include <thread>

#include "thinwire/base/errors.h"
#include "thinwire/comm/framed_transport.h"

namespace thinwire::comm {
namespace {

constexpr int kTag = 0;  // on a communicator of our own; streams keep their order
// Most MPIs send up to 64 KiB at once, and ask the receiver first about more, which costs a round trip.
constexpr size_t kPacketBytes = 60 << 10;
constexpr size_t kWindow = 64;  // packets under way: 3.75 MiB a round trip, and of memory, for each peer and direction
constexpr auto kShortestPause = std::chrono::microseconds(10), kLongestPause = std::chrono::microseconds(500);
constexpr int kLooksWithoutPause = 20;

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  TORCH_CHECK(false, "[comm] ", what, ": ", std::string(text, length));
}

// Wakes the thread; outlives it, because Frames may notify to the last.
class Bell {
 public:
  void ring() {
    {
      std::lock_guard lock(mutex_);
      rung_ = true;
    }
    changed_.notify_all();
  }
  // Whether it rang.
  bool wait_for(std::chrono::microseconds pause) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [&] { return rung_; });
    return std::exchange(rung_, false);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

struct Packet {
  at::Tensor bytes;
  MPI_Request request = MPI_REQUEST_NULL;
  char* data() const { return static_cast<char*>(bytes.mutable_data_ptr()); }
};
at::Tensor packet_memory() { return at::empty({static_cast<int64_t>(kPacketBytes)}, at::kByte); }

// Both directions of one peer.
class Conversation {
 public:
  Conversation(Frames& frames, MPI_Comm comm, int peer) : frames_(frames), comm_(comm), peer_(peer) {
    for (size_t i = 0; i < kWindow; ++i) post(packet_memory());
  }
  // Goes as far as it can without waiting; whether something was done.
  bool advance() {
    if (cut_) return false;
    try {
      const bool sent = send(), came = recv();
      return sent || came;
    } catch (const std::exception& error) {
      cut_ = true;
      frames_.disconnect(peer_, one_line(error));
      return true;
    }
  }
  bool idle() const { return cut_ || sending_.empty(); }
  // Memory that MPI may still write to is let go: only after MPI_Finalize, or where the process ends.
  void cancel() {
    for (auto& packet : posted_)
      if (packet.request != MPI_REQUEST_NULL) MPI_Cancel(&packet.request), MPI_Request_free(&packet.request);
  }

 private:
  void post(at::Tensor memory) {
    Packet packet{.bytes = std::move(memory)};
    check_mpi(MPI_Irecv(packet.data(), static_cast<int>(kPacketBytes), MPI_BYTE, peer_, kTag, comm_, &packet.request),
              "MPI_Irecv");
    posted_.push_back(std::move(packet));
  }

  bool send() {
    bool any = false;
    while (!sending_.empty()) {
      int done = 0;
      check_mpi(MPI_Test(&sending_.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (!done) break;
      free_.push_back(std::move(sending_.front().bytes));
      sending_.pop_front();
      any = true;
    }
    while (sending_.size() < kWindow) {
      if (free_.empty()) free_.push_back(packet_memory());
      Packet packet{.bytes = free_.back()};
      const size_t size = frames_.next_bytes(peer_, {packet.data(), kPacketBytes});
      if (size == 0) break;
      free_.pop_back();
      check_mpi(MPI_Isend(packet.data(), static_cast<int>(size), MPI_BYTE, peer_, kTag, comm_, &packet.request),
                "MPI_Isend");
      sending_.push_back(std::move(packet));
      any = true;
    }
    return any;
  }

  bool recv() {
    bool any = false;
    while (!left_) {
      int done = 0, size = 0;
      MPI_Status status;
      check_mpi(MPI_Test(&posted_.front().request, &done, &status), "MPI_Test");
      if (!done) break;
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
      Packet packet = std::move(posted_.front());
      posted_.pop_front();
      left_ = !frames_.take_bytes(peer_, {packet.data(), static_cast<size_t>(size)});
      if (!left_) post(std::move(packet.bytes));
      any = true;
    }
    return any;
  }

  Frames& frames_;
  const MPI_Comm comm_;
  const int peer_;
  std::deque<Packet> posted_, sending_;
  std::vector<at::Tensor> free_;
  bool left_ = false, cut_ = false;
};

// The thread that calls MPI. Started before it is known which rank this is.
class MpiCarrier final : public Carrier {
 public:
  MpiCarrier() : bell(std::make_shared<Bell>()), thread_([this] { run(); }) {}
  ~MpiCarrier() override {
    stopping_ = true;
    bell->ring();
    if (!started_) frames_.set_value(nullptr);
    thread_.join();
  }
  // Once.
  std::pair<int, int> rank_and_size() { return here_.get_future().get(); }
  void start(std::shared_ptr<Frames> frames) {
    started_ = true;
    frames_.set_value(std::move(frames));
  }

  const std::shared_ptr<Bell> bell;

 private:
  void run() {
    bool ours = false;
    MPI_Comm comm = MPI_COMM_NULL;
    try {
      const std::pair<int, int> here = join(ours, comm);
      here_.set_value(here);
    } catch (...) {
      here_.set_exception(std::current_exception());
      return;
    }
    if (const auto frames = frames_.get_future().get()) carry(*frames, comm, ours);
  }

  static std::pair<int, int> join(bool& ours, MPI_Comm& comm) {
    int initialized = 0, granted = MPI_THREAD_SINGLE, rank = 0, size = 0;
    check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
    if (initialized) {
      check_mpi(MPI_Query_thread(&granted), "MPI_Query_thread");
      TORCH_CHECK(granted == MPI_THREAD_MULTIPLE,
                  "[comm] MPI was started by the program without MPI_THREAD_MULTIPLE, which a second thread needs: ask "
                  "for it in MPI_Init_thread, or let thinwire start MPI");
    } else {
      check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &granted), "MPI_Init_thread");
      TORCH_CHECK(granted >= MPI_THREAD_FUNNELED, "[comm] this MPI does not work in programs that have threads");
      ours = true;
    }
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    return {rank, size};
  }

  void carry(Frames& frames, MPI_Comm comm, bool ours) {
    std::vector<std::unique_ptr<Conversation>> peers;
    for (int peer = 0; peer < frames.size(); ++peer)
      if (peer != frames.rank()) peers.push_back(std::make_unique<Conversation>(frames, comm, peer));
    auto pause = std::chrono::microseconds(0);
    for (int quiet = 0;;) {
      bool any = false;
      for (auto& peer : peers) any |= peer->advance();
      if (any) {
        quiet = 0, pause = kShortestPause;
        continue;
      }
      if (stopping_ && (!frames.all_left() || std::ranges::all_of(peers, [](auto& peer) { return peer->idle(); })))
        break;
      if (++quiet < kLooksWithoutPause)
        std::this_thread::yield();
      else if (bell->wait_for(pause))
        quiet = 0, pause = kShortestPause;
      else
        pause = std::min(2 * pause, std::chrono::microseconds(kLongestPause));
    }
    // All ranks are here: none waits in vain for the others. Otherwise one is stuck, and MPI_Finalize would be too.
    if (!frames.all_left()) MPI_Abort(comm, 1);
    for (auto& peer : peers) peer->cancel();
    if (!ours) return;
    MPI_Comm_free(&comm);
    MPI_Finalize();
  }

  std::promise<std::pair<int, int>> here_;
  std::promise<std::shared_ptr<Frames>> frames_;
  bool started_ = false;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace

TransportPtr mpi_transport(const MpiOptions& options) {
  auto carrier = std::make_unique<MpiCarrier>();
  const auto [rank, size] = carrier->rank_and_size();
  auto frames =
      Frames::make(rank, size, options.timeout_s, options.identity, [bell = carrier->bell](int) { bell->ring(); });
  return std::make_shared<FramedTransport>(
      std::move(frames),
      [&](const std::shared_ptr<Frames>& all) {
        carrier->start(all);
        return std::move(carrier);
      },
      options.connect_s);
}

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown";
  const std::string all(text, length);
  return all.substr(0, all.find_first_of(",\n"));
}

}  // namespace thinwire::comm
