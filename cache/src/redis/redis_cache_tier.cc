#include "stockade/cache/redis_cache_tier.h"

#include <algorithm>
#include <utility>

#include "redis_tier.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

absl::Status Invalid(std::string_view field, std::string_view value, std::string_view rule) {
  return absl::InvalidArgumentError(base_internal::Concat("RedisCacheTierOptions: ", field, " = ", value, " ", rule));
}

absl::Status CheckSpan(std::string_view field, absl::Duration value, absl::Duration least, absl::Duration most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Invalid(field, absl::FormatDuration(value),
                 base_internal::Concat("is not in ", absl::FormatDuration(least), "..", absl::FormatDuration(most)));
}

}  // namespace

absl::Status RedisCacheTierOptions::Validate() const {
  const bool printable =
      std::all_of(prefix.begin(), prefix.end(), [](char c) { return c > ' ' && c < 127 && c != '{' && c != '}'; });
  if (prefix.empty() || prefix.size() > 64 || !printable) {
    return Invalid("prefix", base_internal::Concat("'", base_internal::Printable(prefix, 100), "'"),
                   "is not 1 to 64 printable ASCII characters without blanks and braces");
  }
  const absl::Status spans[] = {
      CheckSpan("max_staleness", max_staleness, absl::Milliseconds(10), absl::Hours(1)),
      CheckSpan("heartbeat", heartbeat, absl::Milliseconds(1), max_staleness / 4),
      CheckSpan("timeout", timeout, absl::Milliseconds(1), absl::Minutes(1)),
      CheckSpan("lease", lease, absl::Milliseconds(10), absl::Minutes(1)),
      CheckSpan("max_load", max_load, lease, absl::Hours(24)),
      CheckSpan("max_ttl", max_ttl, absl::Seconds(1), absl::Hours(24 * 366)),
  };
  for (const absl::Status& valid : spans) {
    if (!valid.ok()) return valid;
  }
  if (journal_length < 100 || journal_length > 10'000'000) {
    return Invalid("journal_length", std::to_string(journal_length), "is not in 100..10000000");
  }
  RedisOptions connection = redis;
  connection.command_timeout = timeout;
  if (absl::Status valid = connection.Validate(); !valid.ok()) return valid;
  constexpr size_t kMostOverhead = size_t{64} << 10;
  const size_t most = std::min(redis.max_reply_bytes, redis.max_unsent_bytes);
  if (max_value_bytes > most || most - max_value_bytes < kMostOverhead) {
    return Invalid(
        "max_value_bytes", std::to_string(max_value_bytes),
        base_internal::Concat("is not 64 KiB below redis.max_reply_bytes and redis.max_unsent_bytes, ", most));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<CacheTier>> RedisCacheTier::Connect(std::string_view url,
                                                                   RedisCacheTierOptions options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  return cache_internal::RedisTier::Connect(url, std::move(options));
}

}  // namespace stockade
