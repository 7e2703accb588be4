#include "stockade/locks/mysql_lock_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "mysql_lock_engine.h"
#include "mysql_schema.h"
#include "stockade/base/strings.h"
#include "stockade/base/url_parts.h"
#include "stockade/locks/engine_lock_service.h"

namespace stockade {
namespace {

constexpr size_t kMaxPrefixBytes = 32;

absl::Status Invalid(std::string_view field, std::string_view value, std::string_view rule) {
  return absl::InvalidArgumentError(base_internal::Concat("MySqlLockOptions: ", field, " = ", value, " ", rule));
}

absl::Status InRange(std::string_view field, absl::Duration value, absl::Duration least, absl::Duration most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Invalid(field, absl::FormatDuration(value),
                 base_internal::Concat("is not in ", absl::FormatDuration(least), "..", absl::FormatDuration(most)));
}

bool IsPrefixByte(char byte) { return absl::ascii_isalnum(byte) || byte == '_'; }

}  // namespace

absl::Status MySqlLockOptions::Validate() const {
  if (table_prefix.size() > kMaxPrefixBytes || !std::ranges::all_of(table_prefix, IsPrefixByte)) {
    return Invalid("table_prefix", base_internal::QuotedUrlValue(table_prefix),
                   base_internal::Concat("has more than ", kMaxPrefixBytes,
                                         " bytes, or bytes other than letters, digits and '_'"));
  }
  if (tls_cert_file.empty() != tls_key_file.empty()) {
    return Invalid(tls_cert_file.empty() ? "tls_key_file" : "tls_cert_file",
                   tls_cert_file.empty() ? tls_key_file : tls_cert_file,
                   "is set without the other of tls_cert_file and tls_key_file");
  }
  const bool has_ca = !tls_ca_file.empty();
  if (tls == MySqlTls::kOff && (has_ca || !tls_cert_file.empty())) {
    return Invalid(has_ca ? "tls_ca_file" : "tls_cert_file", has_ca ? tls_ca_file : tls_cert_file,
                   "is set, but tls is off");
  }
  if (max_connections < 2 || max_connections > 100) {
    return Invalid("max_connections", std::to_string(max_connections), "is not in 2..100");
  }
  for (const absl::Status& status : {
           service.Validate(),
           InRange("connect_timeout", connect_timeout, absl::Milliseconds(100), absl::Minutes(10)),
           InRange("poll_interval_min", poll_interval_min, absl::Milliseconds(1), absl::Minutes(1)),
           InRange("poll_interval_max", poll_interval_max, poll_interval_min, absl::Minutes(1)),
           InRange("token_retention", token_retention, absl::Seconds(1), absl::InfiniteDuration()),
           InRange("purge_interval", purge_interval, absl::Milliseconds(1), absl::Hours(24 * 365)),
       }) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LockService>> MySqlLockService::Connect(std::string_view url, MySqlLockOptions options) {
  absl::StatusOr<std::unique_ptr<locks_internal::MySqlLockEngine>> engine =
      locks_internal::MySqlLockEngine::Connect(url, options);
  if (!engine.ok()) return engine.status();
  return EngineLockService::Create(*std::move(engine), std::move(options.service));
}

std::string MySqlLockService::Schema(std::string_view table_prefix) {
  return locks_internal::MySqlSchema(table_prefix);
}

}  // namespace stockade
