#include "thinwire/comm/world.h"

#include <ATen/Parallel.h>

#include <exception>
#include <mutex>
#include <thread>

#include "thinwire/base/errors.h"
#include "thinwire/comm/threads.h"

namespace thinwire::comm {

void run_world(int size, const std::function<void(std::shared_ptr<MailGroup>)>& rank_main,
               const WorldOptions& options) {
  auto mails = thread_mails(size, options.timeout_s);
  std::mutex mutex;
  std::exception_ptr first;
  auto failed = [&](int rank, const std::string& why) {
    {
      std::lock_guard lock(mutex);
      if (!first) first = std::current_exception();
    }
    mails[rank]->fail(rank, why);
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      auto group = MailGroup::world(mails[rank]);
      try {
        at::set_num_threads(options.threads);
        rank_main(group);
      } catch (const std::exception& error) {
        failed(rank, one_line(error));
      } catch (...) {
        failed(rank, "an exception of unknown type");
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace thinwire::comm
