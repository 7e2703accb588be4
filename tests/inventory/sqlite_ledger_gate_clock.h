#ifndef STOCKADE_TESTS_INVENTORY_SQLITE_LEDGER_GATE_CLOCK_H_
#define STOCKADE_TESTS_INVENTORY_SQLITE_LEDGER_GATE_CLOCK_H_

#include <condition_variable>
#include <mutex>
#include <semaphore>
#include <thread>

#include "stockade/base/clock.h"

namespace stockade::testing {

// Holds the writer where a batch begins, so that a test decides what the next batch is. The thread that makes it may
// open ledgers, which reads the wall time, too.
class GateClock final : public Clock {
 public:
  Instant Now() const override { return System()->Now(); }
  Instant CoarseNow() const override { return System()->CoarseNow(); }
  absl::Time WallNow() const override {
    if (std::this_thread::get_id() != opener_) {
      at_gate_.release();
      gate_.acquire();
    }
    return System()->WallNow();
  }
  bool WaitUntil(std::condition_variable& cv, std::unique_lock<std::mutex>& lock, Instant deadline) override {
    return System()->WaitUntil(cv, lock, deadline);
  }

  void AwaitBatch() { at_gate_.acquire(); }
  void LetGo(int batches) { gate_.release(batches); }

 private:
  const std::thread::id opener_ = std::this_thread::get_id();
  mutable std::counting_semaphore<> at_gate_{0};
  mutable std::counting_semaphore<> gate_{0};
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_SQLITE_LEDGER_GATE_CLOCK_H_
