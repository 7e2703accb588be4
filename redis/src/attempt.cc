#include "attempt.h"

#include <algorithm>
#include <utility>

#include "redis_metrics.h"
#include "status.h"
#include "stockade/base/clock.h"

namespace stockade::internal {
namespace {

// The pauses before a retry: they double from the one to the other.
constexpr absl::Duration kLeastPause = absl::Milliseconds(2);
constexpr absl::Duration kMostPause = absl::Milliseconds(100);

RedisMetric MetricOf(const absl::Status& status) {
  if (status.ok()) return kRedisCommandSuccesses;
  if (!RedisErrorCode(status).empty()) return kRedisCommandErrors;
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded: return kRedisCommandTimeouts;
    case absl::StatusCode::kCancelled: return kRedisCommandCancelled;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kInvalidArgument: return kRedisCommandRefused;
    default: return RedisOutcomeUnknown(status) ? kRedisCommandUnknown : kRedisCommandUnavailable;
  }
}

}  // namespace

absl::Status Attempt::Prepare(Request& request) {
  if (deadline_ == Instant::InfinitePast())
    return absl::DeadlineExceededError("redis: the time-out is not more than 0; not sent");
  if (hop_.pipeline == nullptr) {
    absl::StatusOr<Hop> hop = router_->Route(*command_);
    if (!hop.ok()) return Final(hop.status());
    hop_ = *std::move(hop);
  }
  static const std::string kAsking = RedisCommand("ASKING").Wire();
  request.wire = hop_.asking ? kAsking : std::string();
  request.wire += whole_script_ ? command_->WholeScriptWire() : command_->Wire();
  request.replies = hop_.asking ? 2 : 1;
  return absl::OkStatus();
}

std::optional<absl::Duration> Attempt::Judge(absl::StatusOr<RedisReply>& result) {
  if (result.ok()) {
    if (!result->is_error()) return std::nullopt;
    if (ErrorCodeOf(result->text()) == "NOSCRIPT" && command_->has_script() && !whole_script_) {
      whole_script_ = true;  // Which also makes it known.
      const std::optional<absl::Duration> again = Again(Verdict::kRetryNow);
      if (!again) result = Final(absl::DeadlineExceededError("redis: no time to send a script that the server lacks"));
      return again;
    }
    const Verdict verdict = router_->OnErrorReply(result->text(), hop_);
    const std::optional<absl::Duration> again = Again(verdict);
    // It has not run now, but may have before.
    if (!again && verdict != Verdict::kFinal) result = Final(StatusOfErrorReply(result->text()));
    return again;
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
  if (Clock::System()->Now() + pause >= deadline_) return std::nullopt;
  metrics_->Add(kRedisRetries);
  return pause;
}

absl::StatusOr<RedisReply> Conclude(absl::StatusOr<RedisReply> result, ComponentMetrics& metrics) {
  if (result.ok() && result->is_error()) result = StatusOfErrorReply(result->text());
  metrics.Add(MetricOf(result.status()));
  return result;
}

}  // namespace stockade::internal
