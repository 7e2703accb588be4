#include "attempt.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
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

absl::Status CheckTransaction(const RedisCommand& command) {
  static constexpr std::string_view kNotWithin[] = {"MULTI", "EXEC", "DISCARD", "WATCH", "QUIT", "RESET"};
  for (const std::string& name : command.transaction_commands()) {
    for (const std::string_view other : kNotWithin) {
      if (absl::EqualsIgnoreCase(AbslView(name), AbslView(other))) {
        return absl::InvalidArgumentError(Concat("redis: ", name, " cannot be a command of a transaction; not sent"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Attempt::Check() const {
  if (deadline() == Instant::InfinitePast())
    return absl::DeadlineExceededError("redis: the time-out is not above 0; not sent");
  if (terms_.on_server && terms_.on_server->empty()) {
    return absl::InvalidArgumentError("RedisCallOptions.on_server must not be empty; not sent");
  }
  if (terms_.read_from == RedisReadFrom::kReplica) {
    if (terms_.on_server) {
      return absl::InvalidArgumentError("RedisCallOptions.on_server excludes read_from = kReplica; not sent");
    }
    if (!OnlyReads(command_->name())) {
      return absl::InvalidArgumentError(Concat(
          "redis: ", command_->name(), " is no command that reads only, as read_from = kReplica needs; not sent"));
    }
    if (!terms_.retry) {
      return absl::InvalidArgumentError("RedisCallOptions.retry = false excludes read_from = kReplica; not sent");
    }
  }
  return CheckTransaction(*command_);
}

absl::Status Attempt::Prepare(Request& request) {
  absl::Status valid = Check();
  if (!valid.ok()) return valid;
  if (!hop_.refused.ok()) return Final(hop_.refused);
  if (hop_.pipeline == nullptr) {
    const bool at_replica = terms_.read_from == RedisReadFrom::kReplica && !left_replicas_;
    absl::StatusOr<Hop> hop = at_replica ? router_->RouteToReplica(*command_) : router_->Route(*command_);
    if (!hop.ok()) return Final(hop.status());
    hop_ = *std::move(hop);
  }
  // Never destroyed: a client with static storage duration may send commands at exit.
  static const std::string& kAsking = *new std::string(RedisCommand("ASKING").Wire());
  static const std::string& kProof = *new std::string(RedisCommand::Transaction({}).Wire());
  request.on_server = terms_.on_server;
  request.parts.clear();
  if (proving_) {
    request.wire = kProof;
    request.replies = 2;
    request.kind = Request::Kind::kProof;
    return absl::OkStatus();
  }
  request.wire = whole_script_ ? command_->WholeScriptWire() : command_->Wire();
  if (hop_.asking) request.wire.insert(0, kAsking);
  request.replies = hop_.asking ? 2 : 1;
  request.kind = Request::Kind::kCommand;
  if (command_->is_transaction()) {
    request.replies += 1 + static_cast<int>(command_->transaction_commands().size());
    request.kind = Request::Kind::kTransaction;
    request.parts.reserve(static_cast<size_t>(request.replies));
  }
  return absl::OkStatus();
}

std::optional<absl::Duration> Attempt::Judge(absl::StatusOr<RedisReply>& result) {
  if (IsUnproven(result.status())) return SetProving(true, result);
  if (IsNoRoom(result.status())) return Again(Verdict::kRetryLater);
  if (hop_.at_replica) return JudgeReplica(result);
  if (result.ok()) {
    if (command_->is_transaction()) return JudgeTransaction(result);
    if (!result->is_error()) return std::nullopt;
    if (!repeatable() && MayHaveWritten(result->text())) {
      result = WithUnknownOutcome(StatusOfErrorTo(command_->name(), result->text()));
      return std::nullopt;
    }
    if (ErrorCodeOf(result->text()) == "NOSCRIPT" && command_->has_script() && !whole_script_) {
      whole_script_ = true;  // Which also makes it known.
      const std::optional<absl::Duration> again = Again(Verdict::kRetryNow);
      if (!again) result = Final(absl::DeadlineExceededError("redis: no time is left to send the script's source"));
      return again;
    }
    const Verdict verdict = OnErrorReply(result->text());
    const std::optional<absl::Duration> again = Again(verdict);
    if (again) return again;
    // What the server refused has not run now, but may have before.
    absl::Status refused = StatusOfErrorTo(command_->name(), result->text());
    result = verdict == Verdict::kFinal ? std::move(refused) : Final(refused);
    return std::nullopt;
  }
  if (std::exchange(proving_, false) && RedisOutcomeUnknown(result.status())) {
    result = absl::Status(result.status().code(), "redis: no reply to an empty transaction; not sent");
  }
  const bool unknown = RedisOutcomeUnknown(result.status());
  std::optional<absl::Duration> again;
  if (result.status().code() == absl::StatusCode::kUnavailable && (!unknown || (terms_.retry && repeatable()))) {
    again = Again(router_->OnFailure(result.status(), hop_));
  }
  if (!again) result = Final(result.status());
  may_have_run_ = may_have_run_ || unknown;
  return again;
}

std::optional<absl::Duration> Attempt::SetProving(bool proving, absl::StatusOr<RedisReply>& result) {
  proving_ = proving;
  if (Clock::System()->Now() < deadline()) return absl::ZeroDuration();
  result = Final(absl::DeadlineExceededError("redis: no time is left for the transaction; not sent"));
  return std::nullopt;
}

std::optional<absl::Duration> Attempt::JudgeTransaction(absl::StatusOr<RedisReply>& result) {
  std::vector<RedisReply> replies = std::move(*result).TakeElements();
  std::span<const RedisReply> parts = replies;  // MULTI, the commands, EXEC.
  if (hop_.asking && !proving_) parts = parts.subspan(1);
  RedisReply& exec = replies.back();
  const std::span<const RedisReply> queued = parts.subspan(1, parts.size() - 2);
  if (exec.kind() == RedisReply::Kind::kArray && exec.elements().size() == queued.size()) {
    if (proving_) return SetProving(false, result);
    result = std::move(exec);
    return std::nullopt;
  }
  proving_ = false;
  const auto failed = std::find_if(parts.begin(), parts.end(), [](const RedisReply& part) { return part.is_error(); });
  const auto at = static_cast<size_t>(failed - parts.begin());
  const bool queued_or_refused = std::all_of(
      queued.begin(), queued.end(), [](const RedisReply& part) { return part.is_error() || part.text() == "QUEUED"; });
  if (!exec.is_error() || !queued_or_refused || (at == 0 && !queued.empty())) {
    // MULTI was refused although it was not before, or the peer does not reply as Redis does.
    result = WithUnknownOutcome(absl::UnknownError("redis: these are not the replies to a transaction"));
    return std::nullopt;
  }
  // If EXEC is refused, the reason follows this.
  constexpr std::string_view kBecause = "EXECABORT Transaction discarded because of: ";
  std::string_view error = failed->text();
  if (error.starts_with(kBecause)) error.remove_prefix(kBecause.size());
  const std::optional<absl::Duration> again = Again(OnErrorReply(error));
  if (again) return again;
  std::string name = at == 0 ? "MULTI" : "EXEC";
  std::string refused = name;
  if (at > 0 && at + 1 < parts.size()) {
    name = command_->transaction_commands()[at - 1];
    refused = Concat("command ", at, " of the transaction (", name, ")");
  }
  result = Final(StatusOfErrorTo(name, error, Concat(refused, " was refused, and nothing was run")));
  return std::nullopt;
}

std::optional<absl::Duration> Attempt::JudgeReplica(absl::StatusOr<RedisReply>& result) {
  static constexpr std::string_view kCannotAnswer[] = {"LOADING", "MASTERDOWN", "BUSY",        "NOSCRIPT",
                                                       "MOVED",   "ASK",        "CLUSTERDOWN", "TRYAGAIN"};
  bool needs_master = absl::IsUnavailable(result.status());
  if (result.ok()) {
    if (!result->is_error()) return std::nullopt;
    const std::string_view code = ErrorCodeOf(result->text());
    needs_master = std::find(std::begin(kCannotAnswer), std::end(kCannotAnswer), code) != std::end(kCannotAnswer);
    result = StatusOfErrorTo(command_->name(), result->text());
  }
  if (!needs_master) return std::nullopt;
  left_replicas_ = true;
  hop_ = {};
  return Again(Verdict::kRetryNow);
}

absl::Status Attempt::Final(const absl::Status& error) const {
  return may_have_run_ && !RedisOutcomeUnknown(error) ? WithUnknownOutcome(error) : error;
}

Verdict Attempt::OnErrorReply(std::string_view error) {
  const Verdict verdict = router_->OnErrorReply(error, hop_);  // Which learns from it in any case.
  return terms_.retry ? verdict : Verdict::kFinal;
}

std::optional<absl::Duration> Attempt::Again(Verdict verdict) {
  if (verdict == Verdict::kFinal) return std::nullopt;
  absl::Duration pause;
  if (verdict == Verdict::kRetryLater) pause = std::min(kLeastPause * (1 << std::min(pauses_++, 10)), kMostPause);
  if (Clock::System()->Now() + pause >= deadline()) return std::nullopt;
  metrics_->Add(kRedisRetries);
  return pause;
}

bool Attempt::MayHaveWritten(std::string_view error) const {
  if (!RunsCode(command_->name())) return false;
  const std::optional<std::string_view> key = command_->routing_key();
  return ImitatesRefusal(error, key ? std::optional(KeySlot(*key)) : std::nullopt);
}

void CountResult(const absl::Status& result, ComponentMetrics& metrics) { metrics.Add(MetricOf(result)); }

}  // namespace stockade::redis_internal
