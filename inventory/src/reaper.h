#ifndef STOCKADE_INVENTORY_REAPER_H_
#define STOCKADE_INVENTORY_REAPER_H_

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "order_book.h"
#include "stockade/base/clock.h"
#include "stockade/base/mutex.h"

namespace stockade::inventory_internal {

// A thread that waits for the earliest deadline of the reservations that run, and has those ended whose time has come.
// Thread-safe, from Start() on.
class Reaper {
 public:
  // `expire` is called as long as something is due, on the reaper's thread, which holds no lock: so it takes an order's
  // locks in their order, and waits its turn for each. (With try-locks alone, callers that keep a stripe busy would
  // keep units from coming back.) It returns for how long it is not to be called again, or nothing once nothing will
  // expire any more.
  using Expire = std::function<std::optional<absl::Duration>()>;
  Reaper(Clock* clock, const OrderBook& orders, Expire expire);
  // Once. ResourceExhausted: the system gives no thread.
  absl::Status Start();
  // Waits for an `expire` that runs.
  ~Reaper();

  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // To be called after the earliest deadline of a stripe has become `due`.
  void WakeBy(Instant due);

 private:
  void Run();
  Instant EarliestDue() const;

  Clock* const clock_;
  const OrderBook& orders_;
  const Expire expire_;
  // Until when the thread sleeps; infinite while it looks through the stripes. Set (seq_cst) to infinite before the
  // look, which reads what WakeBy()'s caller stored (seq_cst) before it reads this. So either the look sees the new
  // deadline, or WakeBy() sees that it may not have, and wakes the thread.
  std::atomic<Instant> asleep_until_{Instant::InfiniteFuture()};
  Mutex mutex_;
  CondVar wake_;
  bool woken_ STOCKADE_GUARDED_BY(mutex_) = false;
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace stockade::inventory_internal

#endif  // STOCKADE_INVENTORY_REAPER_H_
