#ifndef STOCKADE_CACHE_LOADING_CACHE_OPTIONS_H_
#define STOCKADE_CACHE_LOADING_CACHE_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/executor.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

struct LoadingCacheOptions {
  // Names the cache in metrics (cache="products") and messages. Not empty.
  std::string name = "cache";

  // What all entries may weigh together; an entry weighs 1 unless the cache is given a Weigher. At least 1. A value
  // heavier than this is returned, never stored.
  int64_t max_weight = 10'000;
  // What a cached absence weighs: there is no value to weigh. At least 1. To be raised where weights are bytes.
  int64_t negative_weight = 1;

  // How long a value is fresh. Infinite: until it is evicted or invalidated. Zero or negative: values are returned and
  // not stored, so that only calls that overlap share a load.
  absl::Duration ttl = absl::InfiniteDuration();
  // The share of its TTL, 0 to 1, by which a value may expire early, drawn evenly: values stored together do not expire
  // together. Never late.
  double ttl_jitter = 0;
  // The share of its TTL, above 0 and below 1, after which a hit reloads the value in the background. 0: off.
  double refresh_ahead = 0;
  // How long a NotFoundError of the loader is remembered and given as the answer. 0: not at all.
  absl::Duration negative_ttl = absl::ZeroDuration();

  // How long past its expiry a value may stand in for a load that failed (with anything but NotFoundError). 0: off.
  absl::Duration stale_if_error = absl::ZeroDuration();
  // After a failed load the old value is served for this long before a load is tried again; the next refresh-ahead of
  // the key waits as long. At least 0.
  absl::Duration retry_backoff = absl::Seconds(1);

  // How long a load ought to take: handed to the loader as LoadContext::deadline(). Above 0. Infinite: none.
  absl::Duration load_timeout = absl::InfiniteDuration();

  // Expiry, deadlines and waits. Not null; must outlive the cache.
  Clock* clock = Clock::System();
  // Where loads run. Null: on the thread of the call that found the key missing, which then cannot leave before its
  // loader does. With an executor every call leaves on its own deadline; tasks of that executor must not call Get()
  // themselves (a loader may: nested loads run on the calling thread). Must outlive the cache.
  Executor* load_executor = nullptr;
  // Where refreshes run. Null: a pool of two threads, started at the first refresh. Must outlive the cache.
  Executor* refresh_executor = nullptr;

  // Draws the jitter. 0: seeded by the system.
  uint64_t seed = 0;

  // Null: no metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument, naming the cache, the field and its value.
  absl::Status Validate() const;
};

struct CacheGetOptions {
  // How long the call may wait for a load, from its start. Zero or negative: it answers from what is cached, and is
  // DeadlineExceeded where that takes a load.
  absl::Duration timeout = absl::InfiniteDuration();
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_LOADING_CACHE_OPTIONS_H_
