// From the moment before one thread's unlock() to the moment after the lock() in which another one sleeps. Two threads
// pass the lock to and fro; the one that has let go asks again only once the other has it, so that nobody barges in.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "locks/parked.h"
#include "locks/rows.h"
#include "locks/workload.h"
#include "stockade/locks/reentrant_mutex.h"

namespace stockade::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Turn t is that of thread t % 2: it asks for the lock while the other holds it (turn 0: nobody does), and holds it
// until the other, which has seen `held` == t and asked, sleeps.
template <typename Mutex>
class PingPong {
 public:
  // The median of `turns` hand-offs, in microseconds.
  double Run(Worker& worker, int64_t turns) {
    worker.RunOps(turns, [this](size_t thread, int64_t last) { Play(static_cast<int64_t>(thread), last); });
    worker.Once([this] {
      const auto middle = handoffs_us_.begin() + static_cast<std::ptrdiff_t>(handoffs_us_.size() / 2);
      std::nth_element(handoffs_us_.begin(), middle, handoffs_us_.end());
      median_us_ = *middle;
    });
    return median_us_;
  }

 private:
  void Play(int64_t thread, int64_t last) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    ids_[thread].store(static_cast<pid_t>(syscall(SYS_gettid)));
    ids_[thread].notify_all();
    ids_[1 - thread].wait(0);
    const ThreadWatch other(ids_[1 - thread]);
    for (int64_t turn = thread; turn <= last; turn += 2) {
      Await(held_, turn - 1);
      asked_ = turn;
      mutex_.lock();
      const SteadyClock::time_point locked = SteadyClock::now();
      if (turn > 0) handoffs_us_.push_back(std::chrono::duration<double, std::micro>(locked - let_go_).count());
      held_ = turn;
      if (turn < last) {
        Await(asked_, turn + 1);
        other.AwaitParked();
      }
      let_go_ = SteadyClock::now();
      mutex_.unlock();
    }
    // A thread that has ended has no state: each stays until the other has had its last turn.
    Await(held_, last);
  }

  static void Await(const std::atomic<int64_t>& count, int64_t value) {
    while (count.load() < value) std::this_thread::yield();
  }

  std::array<std::atomic<pid_t>, 2> ids_{};
  alignas(128) std::atomic<int64_t> asked_ = -1;  // The last turn whose thread is about to call lock().
  alignas(128) std::atomic<int64_t> held_ = -1;   // The last turn whose thread has had the lock.
  alignas(128) Mutex mutex_;
  alignas(128) SteadyClock::time_point let_go_;  // Guarded by mutex_, as is what follows.
  std::vector<double> handoffs_us_;
  double median_us_ = 0;
};

template <typename Mutex>
Measurement HandOff(const Scale& scale) {
  return [turns = scale.Sized(20, 1000), game = std::make_shared<std::optional<PingPong<Mutex>>>()](Worker& worker) {
    [[maybe_unused]] const Conditions<Mutex> conditions{};
    worker.Once([&] { game->emplace(); });
    return (*game)->Run(worker, turns);
  };
}

}  // namespace

void AddHandoffRows(Suite& suite) {
  const auto add = [&]<typename Mutex>(Peer<Mutex> peer) {
    suite.Add({.name = "mutex, hand-off to a sleeping thread", .unit = "us", .peer = std::string(peer.name)},
              {.threads = 2, .prepare = [](const Scale& scale) -> Contestants {
                 return {HandOff<ReentrantMutex>(scale), HandOff<Mutex>(scale)};
               }});
  };
  add(Peer<std::mutex>{"std::mutex"});
  WithNsync(add);
}

}  // namespace stockade::bench
