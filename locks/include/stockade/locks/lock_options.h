#ifndef STOCKADE_LOCKS_LOCK_OPTIONS_H_
#define STOCKADE_LOCKS_LOCK_OPTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "stockade/base/export.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// What every lock of one process is made from.
struct STOCKADE_EXPORT LockOptions {
  // The value of the label `lock` of its metrics, and what a message calls it. Locks of one name share their series.
  // Empty, the default: no metrics, and messages say "unnamed". At most 128 characters of printable ASCII.
  std::string name = {};

  // True: threads enter in the order in which they arrived, and try_lock() does not pass those who wait. False, the
  // default: a thread that finds the lock free takes it, which saves most of the switches between threads. Either way
  // nobody starves: the first of those who wait is passed during one wake-up at most, and by nobody after it.
  bool fifo = false;

  // Where the metrics of a named lock go; may be destroyed before the lock. Null: no metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument: the name is too long or is not printable. A lock's constructor aborts with this text.
  absl::Status Validate() const;
};

}  // namespace stockade

#endif  // STOCKADE_LOCKS_LOCK_OPTIONS_H_
