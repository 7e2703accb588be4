#ifndef STOCKADE_CACHE_INTERNAL_CACHE_CORE_SETTLE_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_CORE_SETTLE_H_

// Bodies of CacheCore: work that is done when no mutex is held. Included by cache_core.h.

#include <utility>

#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::CountRequest(const Call& call) {
  Count(call.result);
  if (call.waited) Observe(kWaitSeconds, Now() - call.begun);
}

// Runs no user code; no mutex is held.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Wake(Aftermath& after) {
  for (const auto& waiter : std::exchange(after.woken, {})) waiter->Wake(true);
}

// Does all the work in `after`. No mutex may be held, and this thread may not run a flight.
template <typename Key, typename Value, typename Hash, typename Eq>
void CacheCore<Key, Value, Hash, Eq>::Settle(Aftermath& after) noexcept {
  Wake(after);
  for (FlightPtr& flight : std::exchange(after.for_load_executor, {})) {
    Offer(options_.load_executor, QueuedLoad(*this, &FlightT::on_load_executor, {std::move(flight)}, false));
  }
  for (FlightPtr& flight : std::exchange(after.for_refresh_executor, {})) {
    Offer(RefreshExecutor(), QueuedLoad(*this, &FlightT::on_refresh_executor, {std::move(flight)}, false));
  }
  for (const AsyncPtr& async : std::exchange(after.answered, {})) {
    const FlightPtr flight = std::move(async->call.flight);
    if (async->call.joined < flight->fit_below) {
      if (flight->stale) async->call.result = kRequestStale;
      CountRequest(async->call);
      Deliver(async, flight->answer);
    } else {
      StartAsync(async);
    }
  }
  if (after.stored_mortal) PlanSweep();
  if (after.may_exceed) Trim(nullptr, after);
  after.dropped.clear();
  if (!after.renewed.empty()) Retire(std::exchange(after.renewed, {}));
  if (!after.removed.empty()) Notify(std::exchange(after.removed, {}));
}

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_CORE_SETTLE_H_
