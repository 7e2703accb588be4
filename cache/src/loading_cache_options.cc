#include "stockade/cache/loading_cache_options.h"

#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "stockade/base/printable.h"
#include "stockade/base/strings.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/cache/internal/cache_base.h"

namespace stockade {
namespace {

constexpr absl::Duration kLeastIdleTtl = absl::Milliseconds(150);
constexpr absl::Duration kMostIdleTtl = absl::Hours(24 * 100);
constexpr int64_t kLargestWeight = int64_t{1} << 56;

std::string Text(absl::Duration span) { return absl::FormatDuration(span); }
std::string Text(double number) { return base_internal::Concat(number); }
std::string Text(int64_t number) { return base_internal::Concat(number); }

}  // namespace

absl::Status cache_internal::CheckMaxWeight(std::string_view name, int64_t max_weight) {
  if (max_weight >= 1 && max_weight <= kLargestWeight) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base_internal::Concat("LoadingCache '", name, "': max_weight = ", max_weight, ": must be from 1 to 2^56"));
}

absl::Status LoadingCacheOptions::Validate() const {
  const auto refuse = [&](std::string_view field, std::string_view value, std::string_view rule) {
    return absl::InvalidArgumentError(
        base_internal::Concat("LoadingCache '", name, "': ", field, " = ", value, ": ", rule));
  };
  if (name.empty()) return refuse("name", "''", "must not be empty");
  if (absl::Status valid = base_internal::CheckName("LoadingCache: name", name); !valid.ok()) return valid;
  if (absl::Status valid = cache_internal::CheckMaxWeight(name, max_weight); !valid.ok()) return valid;
  if (negative_weight < 1) return refuse("negative_weight", Text(negative_weight), "must be at least 1");
  // Written so that NaN is refused.
  if (!(ttl_jitter >= 0 && ttl_jitter <= 1)) return refuse("ttl_jitter", Text(ttl_jitter), "must be from 0 to 1");
  if (!(refresh_ahead >= 0 && refresh_ahead < 1)) {
    return refuse("refresh_ahead", Text(refresh_ahead), "must be at least 0 and below 1");
  }
  if (!(xfetch_beta >= 0 && xfetch_beta <= std::numeric_limits<double>::max())) {
    return refuse("xfetch_beta", Text(xfetch_beta), "must be at least 0 and finite");
  }
  const std::pair<std::string_view, absl::Duration> spans[] = {{"negative_ttl", negative_ttl},
                                                               {"error_ttl", error_ttl},
                                                               {"stale_while_revalidate", stale_while_revalidate},
                                                               {"stale_if_error", stale_if_error},
                                                               {"retry_backoff", retry_backoff}};
  for (const auto& [field, span] : spans) {
    if (span < absl::ZeroDuration()) return refuse(field, Text(span), "must not be negative");
  }
  if (idle_ttl != absl::InfiniteDuration() && (idle_ttl < kLeastIdleTtl || idle_ttl > kMostIdleTtl)) {
    return refuse("idle_ttl", Text(idle_ttl), "must be from 150 ms to 100 days, or infinite");
  }
  if (load_soft_timeout <= absl::ZeroDuration()) {
    return refuse("load_soft_timeout", Text(load_soft_timeout), "must be above 0");
  }
  if (load_hard_timeout <= absl::ZeroDuration()) {
    return refuse("load_hard_timeout", Text(load_hard_timeout), "must be above 0");
  }
  if (sweep_interval.has_value() && *sweep_interval <= absl::ZeroDuration()) {
    return refuse("sweep_interval", Text(*sweep_interval), "must be above 0");
  }
  if (clock == nullptr) return refuse("clock", "null", "must be set");
  if (tier != nullptr) {
    if (strict && !tier->has_locks()) {
      return refuse("strict", "true", "needs a tier with locks: see RedisCacheTierOptions::locks");
    }
    if (strict && stale_if_error > absl::ZeroDuration()) {
      return refuse("stale_if_error", Text(stale_if_error),
                    "cannot be combined with strict and a tier, because it returns values that may be outdated");
    }
    if (tier->clock() != clock) return refuse("clock", "another than the tier's", "must be the clock of the tier");
  }
  // What would have no effect is a mistake.
  if (ttl == absl::InfiniteDuration()) {
    const std::string_view rule = "has no effect with ttl = inf: set a finite ttl";
    if (ttl_jitter > 0) return refuse("ttl_jitter", Text(ttl_jitter), rule);
    if (refresh_ahead > 0) return refuse("refresh_ahead", Text(refresh_ahead), rule);
    if (xfetch_beta > 0) return refuse("xfetch_beta", Text(xfetch_beta), rule);
    if (stale_while_revalidate > absl::ZeroDuration()) {
      return refuse("stale_while_revalidate", Text(stale_while_revalidate), rule);
    }
  }
  if (load_soft_timeout != absl::InfiniteDuration()) {
    if (stale_if_error == absl::ZeroDuration()) {
      return refuse("load_soft_timeout", Text(load_soft_timeout),
                    "has no effect with stale_if_error = 0, because there is no old value to return");
    }
    if (load_soft_timeout > load_hard_timeout) {
      return refuse("load_soft_timeout", Text(load_soft_timeout),
                    base_internal::Concat("has no effect above load_hard_timeout = ", Text(load_hard_timeout)));
    }
  }
  return absl::OkStatus();
}

absl::Status WarmUpOptions::Validate() const {
  if (parallelism < 1) return absl::InvalidArgumentError("WarmUp: parallelism = 0: must be at least 1");
  if (batch_size < 1) return absl::InvalidArgumentError("WarmUp: batch_size = 0: must be at least 1");
  return absl::OkStatus();
}

}  // namespace stockade
