#include "attempt.h"

#include <algorithm>
#include <utility>

#include "key_slot.h"
#include "redis_metrics.h"
#include "status.h"
#include "stockade/base/clock.h"
#include "stockade/base/strings.h"

namespace stockade::redis_internal {
namespace {

// The pauses before a retry: they double from the one to the other.
constexpr absl::Duration kLeastPause = absl::Milliseconds(2);
constexpr absl::Duration kMostPause = absl::Milliseconds(100);

RedisMetric MetricOf(const absl::Status& status) {
  if (status.ok()) return kRedisCommandSuccesses;
  if (!RedisErrorCode(status).empty() && !RedisOutcomeUnknown(status)) return kRedisCommandErrors;
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded: return kRedisCommandTimeouts;
    case absl::StatusCode::kAborted: return RedisOutcomeUnknown(status) ? kRedisCommandUnknown : kRedisCommandRefused;
    case absl::StatusCode::kCancelled: return kRedisCommandCancelled;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kPermissionDenied: return kRedisCommandRefused;
    default: return RedisOutcomeUnknown(status) ? kRedisCommandUnknown : kRedisCommandUnavailable;
  }
}

}  // namespace

absl::Status Attempt::Prepare(Request& request) {
  if (deadline() == Instant::InfinitePast())
    return absl::DeadlineExceededError("redis: the time-out is not above 0; not sent");
  if (terms_.on_server && terms_.on_server->empty()) {
    return absl::InvalidArgumentError("RedisCallOptions.on_server must not be empty; not sent");
  }
  if (!hop_.refused.ok()) return Final(hop_.refused);
  if (hop_.pipeline == nullptr) {
    absl::StatusOr<Hop> hop = router_->Route(*command_);
    if (!hop.ok()) return Final(hop.status());
    hop_ = *std::move(hop);
  }
  static const std::string kAsking = RedisCommand("ASKING").Wire();
  request.wire = hop_.asking ? kAsking : std::string();
  request.wire += whole_script_ ? command_->WholeScriptWire() : command_->Wire();
  request.replies = hop_.asking ? 2 : 1;
  request.on_server = terms_.on_server;
  return absl::OkStatus();
}

std::optional<absl::Duration> Attempt::Judge(absl::StatusOr<RedisReply>& result) {
  if (result.ok()) {
    if (!result->is_error()) return std::nullopt;
    if (!command_->idempotent() && MayHaveWritten(result->text())) {
      result = WithUnknownOutcome(StatusOf(result->text()));
      return std::nullopt;
    }
    if (ErrorCodeOf(result->text()) == "NOSCRIPT" && command_->has_script() && !whole_script_) {
      whole_script_ = true;  // Which also makes it known.
      const std::optional<absl::Duration> again = Again(Verdict::kRetryNow);
      if (!again) result = Final(absl::DeadlineExceededError("redis: no time is left to send the script's source"));
      return again;
    }
    const Verdict verdict = router_->OnErrorReply(result->text(), hop_);
    const std::optional<absl::Duration> again = Again(verdict);
    if (again) return again;
    // What the server refused has not run now, but may have before.
    absl::Status refused = StatusOf(result->text());
    result = verdict == Verdict::kFinal ? std::move(refused) : Final(refused);
    return std::nullopt;
  }
  const bool unknown = RedisOutcomeUnknown(result.status());
  std::optional<absl::Duration> again;
  if (result.status().code() == absl::StatusCode::kUnavailable && (!unknown || command_->idempotent())) {
    again = Again(router_->OnFailure(result.status(), hop_));
  }
  if (!again) result = Final(result.status());
  may_have_run_ = may_have_run_ || unknown;
  return again;
}

absl::Status Attempt::Final(const absl::Status& error) const {
  return may_have_run_ && !RedisOutcomeUnknown(error) ? WithUnknownOutcome(error) : error;
}

std::optional<absl::Duration> Attempt::Again(Verdict verdict) {
  if (verdict == Verdict::kFinal) return std::nullopt;
  absl::Duration pause;
  if (verdict == Verdict::kRetryLater) pause = std::min(kLeastPause * (1 << std::min(pauses_++, 10)), kMostPause);
  if (Clock::System()->Now() + pause >= deadline()) return std::nullopt;
  metrics_->Add(kRedisRetries);
  return pause;
}

absl::Status Attempt::StatusOf(std::string_view error) const {
  if (!MayCarryPassword(command_->name())) return StatusOfErrorReply(error);
  return StatusOfErrorReply(
      error, ServerText::kHidden,
      Concat("the rest is not shown, because an answer to ", command_->name(), " may repeat a password"));
}

bool Attempt::MayHaveWritten(std::string_view error) const {
  if (!RunsCode(command_->name())) return false;
  const std::optional<std::string_view> key = command_->routing_key();
  return ImitatesRefusal(error, key ? std::optional(KeySlot(*key)) : std::nullopt);
}

void CountResult(const absl::Status& result, ComponentMetrics& metrics) { metrics.Add(MetricOf(result)); }

}  // namespace stockade::redis_internal
