#ifndef STOCKADE_CACHE_LOADING_CACHE_OPTIONS_H_
#define STOCKADE_CACHE_LOADING_CACHE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "stockade/base/clock.h"
#include "stockade/base/duration.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade {

// What a LoadingCache is made from. Only max_weight and ttl need a thought; the rest is off, or as most want it. A
// Duration is made of an absl::Duration or of a std::chrono one.
struct STOCKADE_EXPORT LoadingCacheOptions {
  // Names the cache in metrics (cache="products") and messages. Not empty, and printable UTF-8: no control characters.
  std::string name = "cache";

  // What all entries may weigh together; an entry weighs 1 unless the cache is given a Weigher. From 1 to 2^56, so that
  // no sum overflows. A value heavier than this is returned, never stored.
  int64_t max_weight = 10'000;
  // What a cached absence, or error, weighs: there is no value to weigh. At least 1. To be raised where weights are
  // bytes.
  int64_t negative_weight = 1;

  // How long a value is fresh. Infinite: until it is evicted or invalidated. Zero or negative: values are returned and
  // not stored, so that only calls that overlap share a load.
  Duration ttl = absl::InfiniteDuration();
  // The share of its TTL, 0 to 1, by which a value may expire early, drawn evenly: values stored together do not expire
  // together. Never late.
  double ttl_jitter = 0;
  // The share of its TTL, above 0 and below 1, after which a hit reloads the value in the background. 0: off.
  double refresh_ahead = 0;
  // XFetch (Vattani, Chierichetti and Lowenstein, VLDB 2015): a hit reloads the value in the background with a chance
  // that grows as its expiry comes near, the earlier the longer its load took. 1 is the optimum for loads whose time is
  // exponentially distributed; above 1 is earlier. At least 0. 0: off. May be used with refresh_ahead.
  double xfetch_beta = 0;
  // How long a NotFoundError of the loader is remembered and given as the answer, unless the loader says it for its key
  // (LoadContext::set_ttl()). 0: not at all.
  Duration negative_ttl = absl::ZeroDuration();
  // Error caching: how long another error of a load, or its hard time-out, is remembered and given as the answer, if no
  // old value stands in for it (stale_if_error). Not remembered: Cancelled, and an error that comes of the deadline of
  // the call that ran the load. Invalidations, Put() and Refresh() forget it. At least 0. 0: each call loads again.
  Duration error_ttl = absl::ZeroDuration();

  // How long past its expiry a value is still the answer while it is reloaded in the background. 0: off.
  Duration stale_while_revalidate = absl::ZeroDuration();
  // How long past its expiry a value may stand in for a load that failed (with anything but NotFoundError) or passed a
  // time-out. 0: off.
  Duration stale_if_error = absl::ZeroDuration();
  // After a failed load the old value is served for this long before a load is tried again; the next refresh of the key
  // in the background waits as long. At least 0.
  Duration retry_backoff = absl::Seconds(1);

  // How long a call waits for a load where stale_if_error has a value for it: then it takes that, and the load goes on.
  // Above 0. Infinite: as long as the load takes. Where it is finite and there is such a value, loads run in the
  // background, on refresh_executor, if there is no load_executor.
  Duration load_soft_timeout = absl::InfiniteDuration();
  // How long a load may take, from its start: told to the loader as its deadline. From then on its key is free for the
  // next load, those who wait get the value that stale_if_error has for them or DeadlineExceeded, and what it returns
  // is refused. The loader itself is not stopped, and a call whose thread runs it leaves when it
  // returns. A load that cannot start, because two others of its key still run or
  // its executor is full, is given up after as long. Above 0. Infinite: none.
  Duration load_hard_timeout = absl::InfiniteDuration();

  // Reads wait while the key is being written by UpdateThrough(): they hold the key's read lock, from the lookup to the
  // end of the load. Waits for that lock are timed on the steady clock and heed no stop token.
  bool strict = false;

  // Entries that have expired for good leave with what is stored after them, and where nothing is stored, with a walk
  // over the cache that runs this often while it has entries that can expire; on refresh_executor, or else on a thread
  // of the cache. Above 0. Infinite: no walks. Nothing: a minute with the system's clock, infinite with another, so
  // that with a ManualClock nothing happens behind a test's back.
  std::optional<Duration> sweep_interval = std::nullopt;

  // Expiry, deadlines and waits. Not null; must outlive the cache.
  Clock* clock = Clock::System();
  // Where loads run. Null: on the thread of the call that found the key missing, which then cannot leave before its
  // loader does. With an executor every call leaves on its own deadline, except the calls that a loader makes and those
  // on a thread of the executor itself (as its RunningInThisThread() says; a ThreadPool's does): they run the load,
  // since to wait for a thread of the executor might be to wait for ever. Must outlive the cache.
  Executor* load_executor = nullptr;
  // Where refreshes run, and loads that have no thread of their own: those of GetAsync() without a load_executor. Null:
  // a pool of two threads, started when first needed. Must outlive the cache.
  Executor* refresh_executor = nullptr;

  // Draws the jitter and XFetch's chance. 0: seeded by the system.
  uint64_t seed = 0;

  // Null: no metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument, naming the cache, the field and its value. Also of options that have no effect, naming both of
  // them: ttl_jitter, refresh_ahead, xfetch_beta or stale_while_revalidate with an infinite ttl (a loader may give its
  // values another one all the same); load_soft_timeout without stale_if_error, or above load_hard_timeout.
  absl::Status Validate() const;
};

// How long one lookup may take.
struct CacheGetOptions {
  // How long the call may wait for a load, from its start. Zero or negative: it answers from what is cached, and is
  // DeadlineExceeded where that takes a load; also where stale_if_error has a value, for which there is
  // load_soft_timeout.
  Duration timeout = absl::InfiniteDuration();
  // Asked to stop, the call leaves with Cancelled; the load goes on for the others. A load on the caller's own thread
  // is told through its context.
  std::stop_token stop = {};
};

// How LoadingCache::WarmUp() goes about it.
struct STOCKADE_EXPORT WarmUpOptions {
  // Loads at the same time. At least 1.
  size_t parallelism = 4;
  // Keys in one call of the batch loader. At least 1. Without a batch loader keys are loaded one by one.
  size_t batch_size = 100;
  // How long the whole may take; what has not begun by then is DeadlineExceeded.
  Duration timeout = absl::InfiniteDuration();

  // InvalidArgument, naming the field and its value.
  absl::Status Validate() const;
};

// Of each key that was asked for, repeated ones once.
struct WarmUpReport {
  int64_t present = 0;            // Have a value now, loaded or there before.
  int64_t not_found = 0;          // Have none.
  int64_t failed = 0;             // Could not be loaded.
  absl::Status first_error = {};  // Of those that failed; OK where none did.
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_LOADING_CACHE_OPTIONS_H_
