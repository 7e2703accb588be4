#include "stockade/redis/redis_options.h"

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "host_name.h"
#include "stockade/base/printable.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

absl::Status Positive(std::string_view field, absl::Duration span) {
  if (span > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base_internal::Concat("RedisOptions.", field, " must be more than 0, is ", absl::FormatDuration(span)));
}

absl::Status Positive(std::string_view field, size_t value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(base_internal::Concat("RedisOptions.", field, " must be more than 0"));
}

}  // namespace

absl::Status RedisOptions::Validate() const {
  for (const absl::Status& status : {
           base_internal::CheckName("RedisOptions.name", name),
           Positive("connect_timeout", connect_timeout),
           Positive("command_timeout", command_timeout),
           Positive("min_backoff", min_backoff),
           Positive("max_backoff", max_backoff),
           Positive("max_pending_commands", max_pending_commands),
           Positive("max_unsent_bytes", max_unsent_bytes),
           Positive("max_reply_bytes", max_reply_bytes),
           Positive("max_channels", max_channels),
       }) {
    if (!status.ok()) return status;
  }
  for (const std::string& host : allowed_hosts) {
    if (!redis_internal::IsAllowedHostEntry(host)) {
      return absl::InvalidArgumentError(
          base_internal::Concat("RedisOptions.allowed_hosts: '", absl::CHexEscape(host),
                                "' must be a host name, an address without brackets and port, "
                                "or a dot and the end of host names"));
    }
  }
  if (max_backoff < min_backoff) {
    return absl::InvalidArgumentError(
        base_internal::Concat("RedisOptions.max_backoff (", absl::FormatDuration(max_backoff),
                              ") must not be less than min_backoff (", absl::FormatDuration(min_backoff), ")"));
  }
  return absl::OkStatus();
}

}  // namespace stockade
