#ifndef STOCKADE_BENCH_LOCKS_PARKED_H_
#define STOCKADE_BENCH_LOCKS_PARKED_H_

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>
#include <thread>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::bench {

// Looks at a thread of this process from outside: does it sleep in the kernel? The same for every lock, whatever the
// lock itself tells.
class ThreadWatch {
 public:
  explicit ThreadWatch(pid_t thread)
      : stat_(open(base_internal::Concat("/proc/self/task/", thread, "/stat").c_str(), O_RDONLY | O_CLOEXEC)) {
    if (stat_ < 0) base_internal::Fatal("bench: /proc does not show the threads of this process");
  }
  ~ThreadWatch() { close(stat_); }

  ThreadWatch(const ThreadWatch&) = delete;
  ThreadWatch& operator=(const ThreadWatch&) = delete;

  // Until it sleeps, and then for as long as its core needs to turn to something else. Aborts after a long time.
  void AwaitParked() const {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point give_up = Clock::now() + std::chrono::seconds(30);
    while (!Sleeps()) {
      if (Clock::now() > give_up) base_internal::Fatal("bench: a waiter does not park");
      std::this_thread::yield();
    }
    const Clock::time_point settled = Clock::now() + std::chrono::microseconds(20);
    while (Clock::now() < settled) std::this_thread::yield();
  }

 private:
  // proc(5): "<id> (<name>) <state> ...", and the name may have any character in it.
  bool Sleeps() const {
    char text[512];
    const ssize_t size = pread(stat_, text, sizeof(text), 0);
    if (size <= 0) base_internal::Fatal("bench: the state of a thread cannot be read");
    const std::string_view stat(text, static_cast<size_t>(size));
    const size_t name_end = stat.rfind(')');
    return name_end != std::string_view::npos && stat.substr(name_end + 1).starts_with(" S");
  }

  const int stat_;
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LOCKS_PARKED_H_
