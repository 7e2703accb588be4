#include "status.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

constexpr char kOutcomeUrl[] = "stockade/redis/outcome";
constexpr char kErrorCodeUrl[] = "stockade/redis/error_code";

absl::StatusCode CodeOf(std::string_view error_code) {
  static constexpr std::pair<std::string_view, absl::StatusCode> kCodes[] = {
      {"LOADING", absl::StatusCode::kUnavailable},
      {"READONLY", absl::StatusCode::kUnavailable},
      {"MASTERDOWN", absl::StatusCode::kUnavailable},
      {"CLUSTERDOWN", absl::StatusCode::kUnavailable},
      {"TRYAGAIN", absl::StatusCode::kUnavailable},
      {"MOVED", absl::StatusCode::kUnavailable},
      {"ASK", absl::StatusCode::kUnavailable},
      {"BUSY", absl::StatusCode::kUnavailable},
      {"NOREPLICAS", absl::StatusCode::kUnavailable},
      {"MISCONF", absl::StatusCode::kUnavailable},
      {"OOM", absl::StatusCode::kResourceExhausted},
      {"NOAUTH", absl::StatusCode::kUnauthenticated},
      {"WRONGPASS", absl::StatusCode::kUnauthenticated},
      {"NOPERM", absl::StatusCode::kPermissionDenied},
      {"WRONGTYPE", absl::StatusCode::kFailedPrecondition},
      {"NOSCRIPT", absl::StatusCode::kFailedPrecondition},
      {"EXECABORT", absl::StatusCode::kFailedPrecondition},
      {"CROSSSLOT", absl::StatusCode::kInvalidArgument},
  };
  for (const auto& [name, code] : kCodes) {
    if (error_code == name) return code;
  }
  return absl::StatusCode::kUnknown;
}

}  // namespace

bool RedisOutcomeUnknown(const absl::Status& status) { return status.GetPayload(kOutcomeUrl).has_value(); }

std::string RedisErrorCode(const absl::Status& status) {
  const auto code = status.GetPayload(kErrorCodeUrl);
  return code.has_value() ? std::string(*code) : std::string();
}

namespace internal {

absl::Status WithUnknownOutcome(const absl::Status& status) {
  absl::Status marked(status.code(), Concat(std::string(status.message()), "; unknown outcome"));
  marked.SetPayload(kOutcomeUrl, absl::Cord("unknown"));
  return marked;
}

std::string_view ErrorCodeOf(std::string_view text) { return text.substr(0, text.find(' ')); }

absl::Status StatusOfErrorReply(std::string_view text) {
  const std::string_view error_code = ErrorCodeOf(text);
  absl::Status status(CodeOf(error_code), Concat("redis answered: ", text));
  status.SetPayload(kErrorCodeUrl, absl::Cord(AbslView(error_code)));
  return status;
}

}  // namespace internal
}  // namespace stockade
