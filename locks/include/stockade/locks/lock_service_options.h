#ifndef STOCKADE_LOCKS_LOCK_SERVICE_OPTIONS_H_
#define STOCKADE_LOCKS_LOCK_SERVICE_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/duration.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// Options that all lock services have.
struct STOCKADE_EXPORT LockServiceOptions {
  // The service's name in messages and the value of the metrics label `service`. Services of the same name and engine
  // share their metrics. 1 to 128 characters of printable ASCII.
  std::string name = "default";

  // The lease of an acquire that does not specify one. It is renewed every third of its length, so that the locks of a
  // crashed process are free after at most this time. The default is Redisson's. At least 100 ms.
  Duration watchdog_lease = absl::Seconds(30);

  // How long a call waits for the engine's answer before it returns Unavailable.
  Duration engine_timeout = absl::Seconds(3);

  // The part of a lease by which the engine's clock may run faster than the local one. A lease becomes invalid locally
  // by this part, plus 2 ms for clocks with millisecond resolution, before it expires at the engine. 0 to 0.5.
  double clock_drift = 0.01;

  // The clock for leases and waits. Must outlive the service and its leases.
  Clock* clock = Clock::System();

  // Runs callbacks (AcquireAsync(), lost()); must outlive the service and its leases. If null, they run on a thread of
  // the service. On an InlineExecutor a callback runs on the thread that detects the loss, which may be inside an
  // acquire of the same owner, and must not acquire that lock.
  Executor* executor = nullptr;

  // The registry that exports the metrics; null disables them. Must outlive the service and its leases.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument if a field is invalid; the message names the field and the value.
  absl::Status Validate() const;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_SERVICE_OPTIONS_H_
