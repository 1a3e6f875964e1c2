#include "tests/comm/processes.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

#include "tests/comm/socket_transport.h"
#include "thinwire/base/errors.h"

namespace thinwire::comm {
namespace {

constexpr char kRank[] = "THINWIRE_TEST_RANK", kSockets[] = "THINWIRE_TEST_SOCKETS",
               kTimeout[] = "THINWIRE_TEST_TIMEOUT", kClock[] = "THINWIRE_TEST_CLOCK", kAhead[] = "THINWIRE_TEST_AHEAD";

int64_t clock_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch()).count();
}

void check_call(int result, const char* what) { TORCH_CHECK(result >= 0, what, ": ", std::strerror(errno)); }

// A descriptor that is closed here, and in every program started here that is not given it.
struct Descriptor {
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor&& other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() {
    if (number >= 0) ::close(std::exchange(number, -1));
  }
  int number;
};

using Mesh = std::vector<std::vector<Descriptor>>;  // [rank][peer]

Mesh full_mesh(int size) {
  Mesh mesh(size);
  for (auto& row : mesh) row.resize(size);
  for (int a = 0; a < size; ++a)
    for (int b = a + 1; b < size; ++b) {
      int pair[2];
      check_call(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), "socketpair");
      mesh[a][b] = Descriptor(pair[0]), mesh[b][a] = Descriptor(pair[1]);
    }
  return mesh;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (auto& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

struct Child {
  pid_t pid = -1;
  bool reaped = false;
  Descriptor out;
  Ended ended;
};

Child start(int rank, const std::vector<Descriptor>& sockets, const std::vector<std::string>& words,
            const ProcessOptions& options) {
  int pipe[2];
  check_call(::pipe2(pipe, O_CLOEXEC), "pipe");
  Child child;
  child.out = Descriptor(pipe[0]);
  const Descriptor its_stdout(pipe[1]);

  std::vector<int> numbers;
  for (auto& socket : sockets) numbers.push_back(socket.number);
  std::vector<std::string> environment, arguments = {"test_processes"};
  for (char** variable = environ; *variable; ++variable) environment.emplace_back(*variable);
  environment.push_back(fmt::format("{}={}", kRank, rank));
  environment.push_back(fmt::format("{}={}", kSockets, fmt::join(numbers, " ")));
  environment.push_back(fmt::format("{}={}", kTimeout, options.timeout_s));
  if (options.clock_step_s) environment.push_back(fmt::format("{}={}", kClock, rank * options.clock_step_s));
  arguments.insert(arguments.end(), words.begin(), words.end());

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int number : numbers)
    if (number >= 0) posix_spawn_file_actions_adddup2(&actions, number, number);  // onto itself: stays open
  posix_spawn_file_actions_adddup2(&actions, its_stdout.number, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const int error = ::posix_spawn(&child.pid, "/proc/self/exe", &actions, nullptr, pointers(arguments).data(),
                                  pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  TORCH_CHECK(error == 0, "posix_spawn: ", std::strerror(error));
  return child;
}

// Reads what has come; false at the end.
bool read_some(Child& child) {
  char buffer[4096];
  const ssize_t size = ::read(child.out.number, buffer, sizeof buffer);
  if (size > 0) child.ended.text.append(buffer, size);
  return size > 0 || (size < 0 && errno == EINTR);
}

void reap(Child& child) {
  int status;
  if (child.reaped || ::waitpid(child.pid, &status, WNOHANG) != child.pid) return;
  child.reaped = true;
  if (WIFEXITED(status)) child.ended.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) child.ended.signal = WTERMSIG(status);
}

// Sets this process's clock ahead, or returns false. Only a program that starts afresh sees another clock, so this one
// does; some kernels forget it on the way.
bool clock_was_set(const std::vector<std::string>& words) {
  if (const char* wanted = std::getenv(kAhead)) return clock_seconds() >= std::stoll(wanted);
  const char* step = std::getenv(kClock);
  if (!step) return true;
  const std::string offset = fmt::format("monotonic {} 0\n", step);
  std::vector<std::string> arguments = {"test_processes"};
  arguments.insert(arguments.end(), words.begin(), words.end());
  ::setenv(kAhead, std::to_string(clock_seconds() + std::stoll(step)).c_str(), true);
  if (::unshare(CLONE_NEWTIME) != 0) return false;
  const Descriptor file(::open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC));
  if (::write(file.number, offset.data(), offset.size()) != std::ssize(offset)) return false;
  ::execv("/proc/self/exe", pointers(arguments).data());
  return false;
}

}  // namespace

std::vector<Ended> run_processes(int size, const std::vector<std::string>& words, const ProcessOptions& options) {
  TORCH_CHECK(!words.empty(), "run_processes wants the name of a function");
  registered(words[0]);
  std::vector<Child> children;
  {
    Mesh mesh = full_mesh(size);
    for (int rank = 0; rank < size; ++rank) children.push_back(start(rank, mesh[rank], words, options));
  }  // a process that dies must be the last to hold its sockets
  const auto limit = Clock::now() + to_duration(options.limit_s);
  for (bool killed = false;;) {
    std::vector<pollfd> ready;
    std::vector<Child*> whose;
    bool running = false;
    for (auto& child : children) {
      reap(child);
      running |= !child.reaped;
      if (child.out.number >= 0) ready.push_back({child.out.number, POLLIN, 0}), whose.push_back(&child);
    }
    if (!running && ready.empty()) break;
    if (!killed && Clock::now() >= limit) {
      killed = true;
      for (auto& child : children)
        if (!child.reaped) ::kill(child.pid, SIGKILL), child.ended.in_time = false;
    }
    ::poll(ready.data(), ready.size(), 10);
    for (size_t i = 0; i < ready.size(); ++i)
      if (ready[i].revents && !read_some(*whose[i])) whose[i]->out.close();
  }
  std::vector<Ended> all;
  for (auto& child : children) all.push_back(std::move(child.ended));
  return all;
}

std::optional<World> world_of_process() {
  const char* rank = std::getenv(kRank);
  if (!rank) return std::nullopt;
  std::vector<int> sockets;
  std::istringstream numbers(std::getenv(kSockets));
  for (int number; numbers >> number;) sockets.push_back(number);
  auto transport = connect_sockets(std::stoi(rank), sockets, std::stod(std::getenv(kTimeout)));
  return World{.group = TransportGroup::world(std::move(transport)), .shares_disk = false};
}

int run_rank(const std::vector<std::string>& words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is killed leaves nobody behind
  if (!clock_was_set(words)) return kNoRights;
  at::set_num_threads(1);
  const auto say = [](const std::string& text) { fmt::print("{}", text), std::fflush(stdout); };
  try {
    std::optional<World> world = world_of_process();
    const Said said = run_rank_main(*world, words);
    say(said.text);
    return said.failed;
  } catch (const std::exception& error) {
    say("error: " + one_line(error));
  }
  return 1;
}

}  // namespace thinwire::comm
