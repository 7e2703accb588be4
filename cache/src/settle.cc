// Work that is done when no mutex is held.

#include <utility>

#include "queued_load.h"
#include "shard.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

void CacheCore::CountRequest(const CacheCall& call) {
  Count(call.result);
  if (call.waited) Observe(kWaitSeconds, Now() - call.begun);
}

// Runs no user code; no mutex is held.
void CacheCore::Wake(Aftermath& after) {
  if (after.woken.empty()) return;
  for (const auto& waiter : std::exchange(after.woken, {})) waiter->Wake(true);
}

// Does all the work in `after`. No mutex may be held, and this thread may not run a flight.
void CacheCore::Settle(Aftermath& after) noexcept {
  Wake(after);
  for (FlightPtr& flight : std::exchange(after.for_load_executor, {})) {
    Offer(options_.load_executor, QueuedLoad(*this, &Flight::on_load_executor, {std::move(flight)}, false));
  }
  for (FlightPtr& flight : std::exchange(after.for_refresh_executor, {})) {
    Offer(RefreshExecutor(), QueuedLoad(*this, &Flight::on_refresh_executor, {std::move(flight)}, false));
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
  if (!after.removed.empty()) Notify(std::exchange(after.removed, {}));
  if (!after.boxes.empty()) FreeBoxes(std::exchange(after.boxes, {}));
  if (after.retired) PlanReclaim();
}

}  // namespace stockade::cache_internal
