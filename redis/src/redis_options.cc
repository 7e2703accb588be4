#include "stockade/redis/redis_options.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
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

absl::Status Within(std::string_view field, size_t value, size_t most) {
  if (value > 0 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base_internal::Concat("RedisOptions.", field, " must be from 1 to ", most, ", is ", value));
}

// Without what would make a file's name end early, or the wrong line of a message.
absl::Status Printable(std::string_view field, const std::string& value) {
  if (std::ranges::none_of(value, absl::ascii_iscntrl)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      base_internal::Concat("RedisTlsOptions.", field, ": '", absl::CHexEscape(value), "' has control bytes"));
}

}  // namespace

absl::Status RedisTlsOptions::Validate() const {
  for (const absl::Status& status :
       {Printable("ca_file", ca_file), Printable("cert_file", cert_file), Printable("key_file", key_file)}) {
    if (!status.ok()) return status;
  }
  if (cert_file.empty() != key_file.empty()) {
    return absl::InvalidArgumentError(base_internal::Concat(
        "RedisTlsOptions: cert_file ('", cert_file, "') and key_file ('", key_file, "') must be set both or neither"));
  }
  if (!server_name.empty() && !redis_internal::IsHostName(server_name)) {
    return absl::InvalidArgumentError(base_internal::Concat(
        "RedisTlsOptions.server_name: '", absl::CHexEscape(server_name), "' is not a host name or an address"));
  }
  if (verify && (*verify < RedisTlsVerify::kFull || *verify > RedisTlsVerify::kNone)) {
    return absl::InvalidArgumentError(
        base_internal::Concat("RedisTlsOptions.verify: ", static_cast<int>(*verify), " is not a RedisTlsVerify"));
  }
  return absl::OkStatus();
}

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
           Within("max_nodes", max_nodes, kMaxRedisNodes),
           tls.Validate(),
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
