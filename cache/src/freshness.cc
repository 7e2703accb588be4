#include "stockade/cache/internal/freshness.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace stockade::cache_internal {
namespace {

constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;

// In scales before the expiry: no draw of 53 bits reaches farther, so hits before that need none.
constexpr double kXFetchReach = 37;

uint64_t SeedFrom(uint64_t seed) {
  if (seed != 0) return seed;
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

Freshness::Freshness(const LoadingCacheOptions& options)
    : ttl_(NanosecondsOf(options.ttl)),
      jitter_(options.ttl_jitter),
      refresh_ahead_(options.refresh_ahead),
      xfetch_beta_(options.xfetch_beta),
      negative_ttl_(NanosecondsOf(options.negative_ttl)),
      error_ttl_(NanosecondsOf(options.error_ttl)),
      stale_while_revalidate_(NanosecondsOf(options.stale_while_revalidate)),
      stale_if_error_(NanosecondsOf(options.stale_if_error)),
      random_(SeedFrom(options.seed)) {}

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): its state is a counter, so threads share it with one addition.
double Freshness::Draw() {
  uint64_t z = random_.fetch_add(kGoldenRatio, std::memory_order_relaxed);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

std::optional<EntryTimes> Freshness::OfSpan(Instant now, Nanoseconds span, absl::Duration load_time) {
  if (span <= 0) return std::nullopt;
  Instant expires_at = After(now, span);
  // An infinite span has no share, and one that the clock cannot reach is none.
  if (expires_at == Instant::InfiniteFuture()) return EntryTimes{};
  auto used = static_cast<double>(span);
  if (jitter_ > 0) {
    used = std::max(used * (1 - jitter_ * Draw()), 1.0);
    expires_at = After(now, static_cast<Nanoseconds>(used));
  }
  EntryTimes times = Of(expires_at);
  if (refresh_ahead_ > 0) times.refresh_at = After(now, static_cast<Nanoseconds>(used * refresh_ahead_));
  if (xfetch_beta_ > 0 && load_time > absl::ZeroDuration()) {
    times.xfetch_scale = static_cast<double>(NanosecondsOf(load_time)) * xfetch_beta_;
    times.xfetch_at = expires_at - absl::Nanoseconds(times.xfetch_scale * kXFetchReach);
  }
  return times;
}

std::optional<EntryTimes> Freshness::OfAbsence(Instant now, Nanoseconds span) {
  if (span <= 0) return std::nullopt;
  const Instant expires_at = After(now, span);
  return EntryTimes{.expires_at = expires_at, .revalidate_until = expires_at, .stale_until = expires_at};
}

// XFetch: with u from (0, 1], it is time when now - scale * ln(u) >= expiry, where scale is the load's time times beta.
std::optional<RefreshTrigger> Freshness::Due(const EntryTimes& times, Instant now) {
  if (now < times.retry_at) return std::nullopt;
  if (now >= times.expires_at) return RefreshTrigger::kStale;
  if (now >= times.refresh_at) return RefreshTrigger::kAhead;
  if (now >= times.xfetch_at &&
      now + absl::Nanoseconds(times.xfetch_scale * -std::log(1 - Draw())) >= times.expires_at) {
    return RefreshTrigger::kXFetch;
  }
  return std::nullopt;
}

}  // namespace stockade::cache_internal
