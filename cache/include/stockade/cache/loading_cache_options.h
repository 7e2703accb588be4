#ifndef STOCKADE_CACHE_LOADING_CACHE_OPTIONS_H_
#define STOCKADE_CACHE_LOADING_CACHE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
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

class CacheTier;

// Options of a LoadingCache. Most users set only max_weight and ttl; the other features are off or have common
// defaults. A Duration can be constructed from an absl::Duration or a std::chrono duration.
struct STOCKADE_EXPORT LoadingCacheOptions {
  // The cache's name in messages and the value of the metrics label `cache`. Must not be empty and must be printable
  // UTF-8 without control characters.
  std::string name = "cache";

  // The largest total weight of all entries; an entry weighs 1 unless the cache has a Weigher. From 1 to 2^56, so that
  // no sum overflows. A heavier value is returned but never stored.
  int64_t max_weight = 10'000;
  // The weight of a cached absence or error, which have no value to weigh. At least 1. Should be increased if weights
  // are bytes.
  int64_t negative_weight = 1;

  // How long a value is fresh. If infinite, until it is evicted or invalidated. If zero or negative, values are
  // returned and not stored, so that only overlapping calls share a load.
  Duration ttl = absl::InfiniteDuration();
  // An entry that was not requested for so long is no longer served: at most an eighth and 40 ms later, never earlier.
  // From 150 ms to 100 days; infinite: never. A Put() over an entry begins its time again; a refresh in the background
  // and Peek() do not. Such an entry is not stale either, and not the previous() of a load. It is removed as expired
  // entries are, and counts as one; without sweeps it may be served again after 400 days. With a tier its value may
  // come back from the second level, which keeps it until its TTL ends.
  Duration idle_ttl = absl::InfiniteDuration();
  // The largest fraction of its TTL, 0 to 1, by which a value may expire early. The fraction is drawn uniformly, so
  // that values that were stored together do not expire together. A value never expires late.
  double ttl_jitter = 0;
  // The fraction of its TTL, above 0 and below 1, after which a hit reloads the value in the background. 0 disables
  // this.
  double refresh_ahead = 0;
  // XFetch (Vattani, Chierichetti and Lowenstein, VLDB 2015): a hit reloads the value in the background with a
  // probability that grows as the expiry approaches, and grows earlier for values that took longer to load. 1 is
  // optimal for exponentially distributed load times; larger values reload earlier. At least 0; 0 disables this. Can be
  // combined with refresh_ahead.
  double xfetch_beta = 0;
  // How long a NotFoundError of the loader is cached and returned, unless the loader sets a time for the key
  // (LoadContext::set_ttl()). 0: it is not cached.
  Duration negative_ttl = absl::ZeroDuration();
  // How long other errors of a load, or its hard time-out, are cached and returned if stale_if_error has no old value
  // for the key. Not cached are Cancelled, errors that are caused by the deadline of the call that ran the load, and
  // errors of a load whose loader called set_ttl() with zero or less. Invalidations, Put() and Refresh() remove a
  // cached error. At least 0. 0: each call loads again.
  Duration error_ttl = absl::ZeroDuration();

  // How long after its expiry a value is still returned while it is reloaded in the background. 0 disables this.
  Duration stale_while_revalidate = absl::ZeroDuration();
  // How long an expired value may be returned if its load failed (with any error except NotFoundError) or exceeded a
  // time-out. 0 disables this.
  Duration stale_if_error = absl::ZeroDuration();
  // How long the old value is served after a failed load before the load is retried; the key's next background refresh
  // waits as long. At least 0.
  Duration retry_backoff = absl::Seconds(1);

  // How long a call waits for a load if stale_if_error has a value for it. Then it returns that value, and the load
  // continues. Above 0. If infinite, it waits as long as the load takes. If it is finite and there is such a value, and
  // there is no load_executor, loads run in the background on refresh_executor.
  Duration load_soft_timeout = absl::InfiniteDuration();
  // How long a load may take, from its start; the loader gets this as its deadline. Afterwards the key is free for the
  // next load, waiting calls get the value from stale_if_error or DeadlineExceeded, and the result of the load is
  // discarded. The loader itself is not stopped, and a call whose thread runs it returns when the loader returns. A
  // load that cannot start, because two other loads of its key still run, its executor is full or another process loads
  // the key, is given up after the same time. Above 0. Infinite: no limit.
  Duration load_hard_timeout = absl::InfiniteDuration();

  // For a cache with a batch loader: the most keys of one call of it, as for a database that takes so many parameters.
  // 0: no limit. A GetAll() that has to load more calls it again: on its thread one batch after another, on a
  // load_executor at the same time. The keys of a batch are there when it has ended. load_hard_timeout counts from the
  // begin of each batch. After the call's deadline, no further batch begins for it. WarmUpOptions::batch_size is a
  // second limit.
  size_t max_batch = 0;

  // Reads wait while UpdateThrough() writes the key, so that the cache equals its source. Without a tier, they hold the
  // key's read lock from the lookup to the end of the load. Waits for that lock are measured on the steady clock and
  // ignore stop tokens, except those of GetAsync().
  //
  // With a tier, which must have locks, this holds for all processes, if all caches of this name are strict. Reads hold
  // no lock, and hits cost what they cost with a tier. The price is on updates: each takes max_staleness of the tier
  // longer than its write. While the process cannot reach the tier, it stores no values, and loads for each call, with
  // at most two loads of a key at a time. Values that the codec refuses, and keys that the tier takes not, are never
  // stored. stale_if_error must be 0.
  bool strict = false;

  // Permanently expired entries are removed when later entries are stored. If nothing is stored, a sweep over the cache
  // removes them at this interval while it has entries that can expire, on refresh_executor or on a thread of the
  // cache. Above 0. Infinite: no sweeps. Not set: one minute with the system clock, infinite with other clocks, so that
  // a cache with a ManualClock has no background activity in tests.
  std::optional<Duration> sweep_interval = std::nullopt;

  // The clock for expiry, deadlines and waits. Not null; must outlive the cache.
  Clock* clock = Clock::System();
  // Runs loads. If null, a load runs on the thread of the call that missed the key, and that call cannot return before
  // its loader. With an executor, every call returns at its own deadline, with two exceptions: calls within a loader,
  // and calls on a thread of the executor itself (according to RunningInThisThread(), which a ThreadPool implements).
  // These run the load themselves, because waiting for the executor could deadlock. Must outlive the cache.
  Executor* load_executor = nullptr;
  // Runs refreshes, and loads of GetAsync() if there is no load_executor. If null, a pool of two threads that starts
  // when it is first needed. Must outlive the cache.
  Executor* refresh_executor = nullptr;

  // A second level that the caches of this name in all processes share (redis_cache_tier.h, cache_tier.h): one load per
  // key in the whole fleet, and invalidations that reach every process. The callbacks need a codec. Its clock must be
  // `clock`. docs/CACHE.md, "Across machines", says what changes.
  std::shared_ptr<CacheTier> tier = nullptr;

  // The seed of the random numbers for jitter and XFetch. 0: the system chooses a seed.
  uint64_t seed = 0;

  // Null disables metrics.
  MetricsRegistry* metrics = MetricsRegistry::Default();

  // InvalidArgument if a field is invalid; the message names the cache, the field and its value. Also if an option has
  // no effect, with a message that names both options: ttl_jitter, refresh_ahead, xfetch_beta or stale_while_revalidate
  // with an infinite ttl (even if a loader sets finite ones); load_soft_timeout without stale_if_error, or above
  // load_hard_timeout.
  absl::Status Validate() const;
};

// Options of one lookup.
struct CacheGetOptions {
  // How long the call may wait for a load, from the start of the call. If zero or negative, it returns only cached
  // results, and DeadlineExceeded if a load is needed. This is so even if stale_if_error has a value; load_soft_timeout
  // serves that purpose.
  Duration timeout = absl::InfiniteDuration();
  // If stop is requested, the call returns Cancelled, and the load continues for other calls. A load on the caller's
  // own thread can see the token in its context.
  std::stop_token stop = {};
};

// Options of LoadingCache::WarmUp().
struct STOCKADE_EXPORT WarmUpOptions {
  // The number of loads at the same time. At least 1.
  size_t parallelism = 4;
  // The number of keys per call of the batch loader. At least 1. Without a batch loader, keys are loaded one by one.
  size_t batch_size = 100;
  // The time limit of the whole call; keys whose load has not begun by then are DeadlineExceeded.
  Duration timeout = absl::InfiniteDuration();

  // InvalidArgument if a field is invalid; the message names the field and its value.
  absl::Status Validate() const;
};

// The result of an update of a strict cache with a tier whose write was done.
struct UpdateReport {
  // Whether the tier has confirmed the end of the update, so that no process returns an older value. If not, others may
  // do so until max_staleness has passed after AwaitInvalidations() has returned OK, or until the next settled update
  // of the key. Do not write again for that.
  bool settled = true;
  absl::Status reason = {};  // Why it is not settled.
};

// Counts of the requested keys; repeated keys count once.
struct WarmUpReport {
  int64_t present = 0;            // Keys with a value, which was loaded now or before.
  int64_t not_found = 0;          // Keys without a value.
  int64_t failed = 0;             // Keys that could not be loaded.
  absl::Status first_error = {};  // Of the failed keys; OK if there are none.
};

}  // namespace stockade

#endif  // STOCKADE_CACHE_LOADING_CACHE_OPTIONS_H_
