#include "cli/signals.h"

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace thinwire::cli {
namespace {

std::atomic<bool> stop_flag = false, save_flag = false;
std::atomic<const char*> stop_words = nullptr;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

std::atomic<bool> term_may_repeat = false;
std::atomic<int64_t> stop_second = 0;
constexpr int64_t kSameTerminationSeconds = 5;
constexpr int kStopping[] = {SIGINT, SIGTERM, SIGHUP};

void handle(int signal, void (*handler)(int)) {
  struct sigaction before = {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

void on_stop(int signal) {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);  // may be called here
  if (stop_flag.exchange(true)) {
    if (term_may_repeat && signal == SIGTERM && now.tv_sec - stop_second < kSameTerminationSeconds) return;
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  stop_second = now.tv_sec;
  const char* words = stop_words;
  if (words) [[maybe_unused]]
    const auto written = ::write(STDERR_FILENO, words, std::strlen(words));
}

void on_save(int) { save_flag = true; }

}  // namespace

Signals::Signals(const char* words, bool launched) {
  stop_words = words;
  term_may_repeat = launched;
  for (const int signal : kStopping) handle(signal, on_stop);
  handle(SIGUSR1, on_save);
}

Signals::~Signals() {
  for (const int signal : kStopping) handle(signal, SIG_DFL);
  handle(SIGUSR1, SIG_DFL);
}

const std::atomic<bool>& Signals::stop() { return stop_flag; }
std::atomic<bool>& Signals::save() { return save_flag; }

}  // namespace thinwire::cli
