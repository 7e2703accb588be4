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
