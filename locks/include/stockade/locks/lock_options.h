#ifndef STOCKADE_LOCKS_LOCK_OPTIONS_H_
#define STOCKADE_LOCKS_LOCK_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "stockade/base/export.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// Options of every lock within one process.
struct STOCKADE_EXPORT LockOptions {
  // The lock's name in messages and the value of the metrics label `lock`. Locks of the same name share their series.
  // Empty, the default: no metrics, and messages say "unnamed". At most 128 characters of printable ASCII.
  std::string name = {};

  // If true, threads enter in order of arrival, and try_lock() does not pass waiters. If false, the default, a thread
  // that finds the lock free acquires it, which avoids most of the context switches. Neither way lets a thread starve:
  // the first waiter is passed only during one wake-up.
  bool fifo = false;

  // The registry for the metrics of a named lock; may be destroyed before the lock. Null disables metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument: the name is too long or not printable. A lock's constructor aborts with this message.
  absl::Status Validate() const;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_OPTIONS_H_
