#include "ledger/order_runs.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace stockade::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

uint64_t Nanoseconds(SteadyClock::duration duration) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(duration).count());
}

// Alive until Run() has returned, which waits until all are done and no call of start() runs any more: an order may be
// done on another thread before the call that started it has returned.
class AsyncRun {
 public:
  AsyncRun(const StartOrder& start, int64_t orders) : start_(start), left_(orders) {}

  OrderRun Run(size_t outstanding, absl::Duration span) {
    const auto begin = SteadyClock::now();
    deadline_ = begin + absl::ToChronoNanoseconds(span);
    for (size_t i = 0; i < outstanding && Claim(begin); ++i) Start(SteadyClock::now());
    std::unique_lock own(mutex_);
    all_done_.wait(own, [this] { return outstanding_ == 0 && starting_ == 0; });
    const std::chrono::duration<double> elapsed = SteadyClock::now() - begin;
    run_.per_second = static_cast<double>(done_) / elapsed.count();
    return std::move(run_);
  }

 private:
  bool Claim(SteadyClock::time_point now) {
    const std::lock_guard own(mutex_);
    return ClaimLocked(now);
  }
  bool ClaimLocked(SteadyClock::time_point now) {
    if (left_ == 0 || now >= deadline_) return false;
    --left_;
    ++outstanding_;
    ++starting_;
    return true;
  }

  void Start(SteadyClock::time_point now) {
    start_([this, now] { Done(now); });
    const std::lock_guard own(mutex_);
    --starting_;
    NotifyIfAllDone();
  }

  void Done(SteadyClock::time_point began) {
    const auto now = SteadyClock::now();
    {
      const std::lock_guard own(mutex_);
      run_.durations.Add(Nanoseconds(now - began));
      ++done_;
      --outstanding_;
      if (!ClaimLocked(now)) {
        NotifyIfAllDone();
        return;
      }
    }
    Start(now);
  }

  // Under the mutex: once it is seen, this object goes.
  void NotifyIfAllDone() {
    if (outstanding_ == 0 && starting_ == 0) all_done_.notify_one();
  }

  const StartOrder& start_;
  SteadyClock::time_point deadline_;
  std::mutex mutex_;  // Guards what follows.
  std::condition_variable all_done_;
  int64_t left_;
  int64_t done_ = 0;
  int64_t outstanding_ = 0;
  int64_t starting_ = 0;  // Calls of start_ that have not returned.
  OrderRun run_;
};

}  // namespace

OrderRun RunOrders(Worker& worker, size_t outstanding, absl::Duration span, const std::function<void(size_t)>& order) {
  std::deque<SteadyClock::time_point> waiting;  // When each became outstanding. The first is the next to be done.
  Durations durations;
  const Throughput throughput = worker.RunFor(span, 1, [&](size_t thread, int64_t) {
    if (waiting.empty()) waiting.assign(outstanding / worker.threads(), SteadyClock::now());
    order(thread);
    const auto now = SteadyClock::now();
    durations.Add(Nanoseconds(now - waiting.front()));
    waiting.pop_front();
    waiting.push_back(now);
  });
  OrderRun run{.per_second = throughput.PerSecond()};
  worker.Gather(durations, [&](const Durations& other) { run.durations.AddAll(other); });
  return run;
}

OrderRun RunAsyncOrders(size_t outstanding, absl::Duration span, const StartOrder& start, int64_t orders) {
  return AsyncRun(start, orders).Run(outstanding, span);
}

}  // namespace stockade::bench
