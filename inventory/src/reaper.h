#ifndef STOCKADE_INVENTORY_REAPER_H_
#define STOCKADE_INVENTORY_REAPER_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "order_record.h"
#include "stockade/base/clock.h"

namespace stockade::internal {

// A thread that waits for the earliest deadline of the reservations that run, and hands over those whose time has come.
// Thread-safe; its mutex is the innermost of an inventory's, and is not held while `expire` runs.
class Reaper {
 public:
  // `expire` runs on the reaper's thread, which holds no lock: so it takes an order's locks in their order, and waits
  // its turn for each. (With try-locks alone, callers that keep a stripe busy would keep units from coming back.)
  Reaper(Clock* clock, std::function<void(OrderRecord&)> expire);
  // Waits for a `expire` that runs.
  ~Reaper();

  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // O(log n). `record` must outlive the reaper.
  void Add(OrderRecord& record);
  // O(log n). It may be with `expire` already.
  void Remove(OrderRecord& record);

 private:
  void Run();

  Clock* const clock_;
  const std::function<void(OrderRecord&)> expire_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::set<std::pair<Instant, OrderRecord*>> running_;  // Guarded by mutex_.
  bool stopping_ = false;                               // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_INVENTORY_REAPER_H_
