#ifndef STOCKADE_CACHE_INTERNAL_FRESHNESS_H_
#define STOCKADE_CACHE_INTERNAL_FRESHNESS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "stockade/base/export.h"
#include "stockade/base/instant.h"
#include "stockade/cache/loading_cache_options.h"

namespace stockade::cache_internal {

// The times at which an entry changes its state. They are compared with the clock at each call. Invariant: expires_at
// <= revalidate_until, stale_until.
struct EntryTimes {
  Instant expires_at = Instant::InfiniteFuture();  // From then on it is not fresh.
  Instant revalidate_until =
      Instant::InfiniteFuture();                    // Until then it is returned nevertheless, while it is reloaded.
  Instant stale_until = Instant::InfiniteFuture();  // Until then it may be returned if a load failed.
  Instant refresh_at = Instant::InfiniteFuture();   // From then on a hit starts a refresh.
  // From then on a hit starts a refresh with probability exp(-(expires_at - now) / xfetch_scale).
  Instant xfetch_at = Instant::InfiniteFuture();
  double xfetch_scale = 0;                     // Nanoseconds.
  Instant retry_at = Instant::InfinitePast();  // After a failed load, no load is tried before this.

  // Whether Freshness::Due() may return a trigger.
  bool MayBeDue(Instant now) const {
    return now >= retry_at && (now >= refresh_at || now >= xfetch_at || now >= expires_at);
  }
  // No use of the entry is later than `latest`, except that it may still replace an error.
  void KeepUntil(Instant latest) {
    if (latest >= revalidate_until) return;
    revalidate_until = latest;
    refresh_at = std::min(refresh_at, latest);  // Freshness::Of() cannot compute these times.
    if (latest >= expires_at) return;
    stale_until = expires_at == Instant::InfiniteFuture() ? latest : latest + (stale_until - expires_at);
    expires_at = latest;
  }
  // Before this time it is neither over nor due, whatever load fails.
  Instant PlainHitUntil() const { return std::min({expires_at, refresh_at, xfetch_at}); }
  // From then on it is useful only as previous() of a loader.
  Instant OverAt() const { return std::max({expires_at, revalidate_until, stale_until}); }
  bool Over(Instant now) const { return now >= OverAt(); }
  // Whether Freshness::Of() cannot compute them.
  bool MustBeKept() const {
    return refresh_at != Instant::InfiniteFuture() || xfetch_at != Instant::InfiniteFuture() ||
           retry_at != Instant::InfinitePast();
  }
};

// The reason for a refresh, in the order of their metrics.
enum class RefreshTrigger { kAhead, kXFetch, kStale, kManual };

// The times of idle_ttl. Hits write nothing, but the first hit an eighth of the idle time after the last recorded use
// records the next one, under the mutex. So the real last use is at most an eighth and a tick later than the recorded
// one, and an entry is idle when both have passed. A value type.
//
// A tick is a power of two, because divisions are slow, and longer than the coarse clock may be late. 2^31 ticks are
// 417 days, more than twice the longest idle time: the difference of two ticks has the right sign for an entry that a
// sweep or a request finds by then.
class IdleClock {
 public:
  explicit IdleClock(absl::Duration idle_ttl)
      : eighth_(idle_ttl == absl::InfiniteDuration() ? 0 : static_cast<int32_t>(idle_ttl / kTick) / 8),
        idle_after_(eighth_ == 0 ? 0 : static_cast<int32_t>(absl::Ceil(idle_ttl, kTick) / kTick) + eighth_ + 1) {}

  bool enabled() const { return eighth_ > 0; }
  static uint32_t TickOf(Instant at) { return static_cast<uint32_t>(at.nanoseconds() >> kTickBits); }
  // Whether a hit at `now` need not be recorded.
  bool IsRecent(uint32_t last_use, Instant now) const { return Since(last_use, now) < eighth_; }
  bool IsIdle(uint32_t last_use, Instant now) const { return enabled() && Since(last_use, now) >= idle_after_; }
  // When it will be idle without another use.
  Instant IdleAt(uint32_t last_use, Instant now) const {
    if (!enabled()) return Instant::InfiniteFuture();
    return now + absl::Nanoseconds(int64_t{idle_after_ - Since(last_use, now)} << kTickBits);
  }

 private:
  static constexpr int kTickBits = 24;
  static constexpr absl::Duration kTick = absl::Nanoseconds(int64_t{1} << kTickBits);  // 16.8 ms

  static int32_t Since(uint32_t last_use, Instant now) { return static_cast<int32_t>(TickOf(now) - last_use); }

  int32_t eighth_;      // In ticks. 0: nothing is ever idle.
  int32_t idle_after_;  // After a recorded use.
};

// Computes the times of entries. Thread-safe.
class STOCKADE_EXPORT Freshness {
 public:
  explicit Freshness(const LoadingCacheOptions& options);

  // For a value stored at `now` with `ttl`, or the cache's if not set, whose load took `load_time`. Returns nothing if
  // it is not to be stored.
  std::optional<EntryTimes> OfValue(Instant now, std::optional<absl::Duration> ttl, absl::Duration load_time) {
    if (!ttl.has_value() && ttl_ == kInfinite) return EntryTimes();
    return OfSpan(now, ttl.has_value() ? NanosecondsOf(*ttl) : ttl_, load_time);
  }
  std::optional<EntryTimes> OfAbsence(Instant now, std::optional<absl::Duration> ttl) const {
    return OfAbsence(now, ttl.has_value() ? NanosecondsOf(*ttl) : negative_ttl_);
  }
  // For another error. `ttl` only says whether it is to be stored.
  std::optional<EntryTimes> OfError(Instant now, std::optional<absl::Duration> ttl) const {
    if (ttl.has_value() && *ttl <= absl::ZeroDuration()) return std::nullopt;
    return OfAbsence(now, error_ttl_);
  }
  // The times of an entry of which only the time of expiry is kept: MustBeKept() is false for others.
  EntryTimes Of(Instant expires_at) const {
    return {.expires_at = expires_at,
            .revalidate_until = After(expires_at, stale_while_revalidate_),
            .stale_until = After(expires_at, stale_if_error_)};
  }
  // The refresh that a lookup of a value at `now` starts, if any.
  std::optional<RefreshTrigger> Due(const EntryTimes& times, Instant now);

 private:
  using Nanoseconds = int64_t;
  static constexpr Nanoseconds kInfinite = INT64_MAX;

  // At least 1 for a positive span, otherwise 0.
  static Nanoseconds NanosecondsOf(absl::Duration span) {
    return span > absl::ZeroDuration() ? std::max<int64_t>(absl::ToInt64Nanoseconds(span), 1) : 0;
  }
  static Instant After(Instant at, Nanoseconds span) {
    Nanoseconds sum = 0;
    const bool infinite = span == kInfinite || __builtin_add_overflow(at.nanoseconds(), span, &sum);
    return infinite ? Instant::InfiniteFuture() : Instant::FromNanoseconds(sum);
  }

  std::optional<EntryTimes> OfSpan(Instant now, Nanoseconds span, absl::Duration load_time);
  static std::optional<EntryTimes> OfAbsence(Instant now, Nanoseconds span);
  // Uniformly distributed in [0, 1).
  double Draw();

  const Nanoseconds ttl_;
  const double jitter_;
  const double refresh_ahead_;
  const double xfetch_beta_;
  const Nanoseconds negative_ttl_;
  const Nanoseconds error_ttl_;
  const Nanoseconds stale_while_revalidate_;
  const Nanoseconds stale_if_error_;
  std::atomic<uint64_t> random_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_FRESHNESS_H_
