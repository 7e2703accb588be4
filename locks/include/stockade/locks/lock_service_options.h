#ifndef STOCKADE_LOCKS_LOCK_SERVICE_OPTIONS_H_
#define STOCKADE_LOCKS_LOCK_SERVICE_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// What every LockService has, whatever its engine.
struct STOCKADE_EXPORT LockServiceOptions {
  // The label `service` of its metrics, and how messages name it. Services of one name and engine are summed.
  // 1 to 128 characters of printable ASCII.
  std::string name = "default";

  // The lease of an acquire that names none: renewed every third of it, so that a process which dies keeps others out
  // no longer than this. Redisson's default. At least 100 ms.
  absl::Duration watchdog_lease = absl::Seconds(30);

  // How long the engine may fail to answer before a call gives up with Unavailable.
  absl::Duration engine_timeout = absl::Seconds(3);

  // By what part of a lease the engine's clock may run faster than ours; and 2 ms, for clocks that count in
  // milliseconds. A lease is invalid here so much before it lapses there. 0 to 0.5.
  double clock_drift = 0.01;

  // Decides about leases and waits. Must outlive the service and its leases.
  Clock* clock = Clock::System();

  // Where callbacks run (AcquireAsync(), lost()); must outlive the service and its leases. Null: on a thread of the
  // service's own. On an InlineExecutor a callback runs wherever a loss is found, within an acquire of the same owner
  // too, and must not acquire that lock itself.
  Executor* executor = nullptr;

  // Where metrics are exported; null: nowhere. Must outlive the service and its leases.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument, which names the field and the value.
  absl::Status Validate() const;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_SERVICE_OPTIONS_H_
