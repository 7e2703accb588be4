#include "stockade/cache/internal/freshness.h"

#include <algorithm>
#include <random>

namespace stockade::internal {
namespace {

constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;

uint64_t SeedFrom(uint64_t seed) {
  if (seed != 0) return seed;
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

Freshness::Freshness(const LoadingCacheOptions& options)
    : ttl_(options.ttl),
      jitter_(options.ttl_jitter),
      refresh_ahead_(options.refresh_ahead),
      negative_ttl_(options.negative_ttl),
      stale_if_error_(options.stale_if_error),
      random_(SeedFrom(options.seed)) {}

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): its state is a counter, so threads share it with one addition.
double Freshness::Draw() {
  uint64_t z = random_.fetch_add(kGoldenRatio, std::memory_order_relaxed);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

std::optional<EntryTimes> Freshness::OfValue(Instant now, std::optional<absl::Duration> ttl) {
  absl::Duration span = ttl.value_or(ttl_);
  if (span <= absl::ZeroDuration()) return std::nullopt;
  // An infinite span has no share, and one that the clock cannot reach is none.
  const bool finite = now + span != Instant::InfiniteFuture();
  if (finite && jitter_ > 0) span = std::max(span * (1 - jitter_ * Draw()), absl::Nanoseconds(1));
  const Instant expires_at = now + span;
  return EntryTimes{
      .expires_at = expires_at,
      .stale_until = expires_at + stale_if_error_,
      .refresh_at = finite && refresh_ahead_ > 0 ? now + span * refresh_ahead_ : Instant::InfiniteFuture(),
  };
}

std::optional<EntryTimes> Freshness::OfAbsence(Instant now) const {
  if (negative_ttl_ <= absl::ZeroDuration()) return std::nullopt;
  const Instant expires_at = now + negative_ttl_;
  return EntryTimes{.expires_at = expires_at, .stale_until = expires_at, .refresh_at = Instant::InfiniteFuture()};
}

}  // namespace stockade::internal
