#include "redis_lock_commands.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "../../service/shown_lock.h"
#include "absl/container/inlined_vector.h"
#include "redis_lock_keys.h"
#include "redis_lock_scripts.h"
#include "stockade/base/strings.h"
#include "stockade/redis/redis_status.h"

namespace stockade::locks_internal {
namespace {

// How long a holder's record outlives its hold; the scripts know it too. So late may a step come that is still refused.
constexpr int64_t kRecordAfterlifeMs = 20'000;

absl::Status Stale(std::string_view name) {
  return absl::AbortedError(Concat(ShownLock(name), ": a later step of its holder has been run"));
}

absl::Status OtherKind(std::string_view name) {
  return absl::FailedPreconditionError(Concat(ShownLock(name), ": held as another kind"));
}

absl::Status NotALock(std::string_view name) {
  return absl::FailedPreconditionError(
      Concat(ShownLock(name), ": the key of this name holds data that is not a lock's"));
}

absl::Status NoLargerToken(std::string_view name) {
  return absl::FailedPreconditionError(Concat(ShownLock(name), ": the key ", LockTokenKey(name),
                                              " holds a token of 2^53 - 1 or more; none can be larger"));
}

absl::Status Unexpected(std::string_view name, const RedisReply& reply) {
  return absl::InternalError(Concat(ShownLock(name), ": Redis answered ", reply.ToString()));
}

RedisCommand ScriptCommand(const RedisScript& script, std::span<const std::string> keys) {
  const absl::InlinedVector<std::string_view, 6> views(keys.begin(), keys.end());
  return RedisCommand(script, views);
}

// Of an array of integers; 0 where it is shorter.
int64_t At(const RedisReply& reply, size_t place) {
  return place < reply.elements().size() ? reply.elements()[place].integer() : 0;
}

}  // namespace

int64_t LeaseMs(absl::Duration lease) {
  constexpr absl::Duration kMost = absl::Hours(24 * 365 * 100);
  return absl::ToInt64Milliseconds(absl::Ceil(std::min(lease, kMost), absl::Milliseconds(1)));
}

absl::Status LockError(std::string_view name, const absl::Status& error) {
  absl::StatusCode code = error.code();
  // To callers these would say that others hold it, or nothing.
  if (code == absl::StatusCode::kDeadlineExceeded ||
      (code == absl::StatusCode::kResourceExhausted && !RedisOutOfDescriptors(error))) {
    code = absl::StatusCode::kUnavailable;
  }
  return absl::Status(code, Concat(ShownLock(name), ": ", error.message()));
}

RedisLockCommands::RedisLockCommands(RedisLockDialect dialect)
    : dialect_(std::move(dialect)),
      retention_ms_(dialect_.token_retention == absl::InfiniteDuration()
                        ? std::string()
                        : std::to_string(LeaseMs(dialect_.token_retention))) {}

RedisCommand RedisLockCommands::Try(const LockTry& step) const {
  const std::string& name = step.hold.name;
  const std::string holder = LockHolder(dialect_.client_id, step.hold);
  std::vector<std::string> keys = {name, LockRecordKey(name, holder)};
  if (dialect_.tokens) keys.push_back(LockTokenKey(name));
  if (step.hold.kind == LockKind::kFair) {
    keys.insert(keys.end(), {FairQueueKey(name), FairTimesKey(name), FairNoteKey(name)});
  }
  const int64_t lease = LeaseMs(step.lease);
  RedisCommand command =
      ScriptCommand(dialect_.tokens ? LockTryScript(step.hold.kind) : LockTryWithoutTokenScript(), keys);
  command.Arg(holder).Arg(lease).Arg(step.sequence).Arg(retention_ms_).Arg(lease + kRecordAfterlifeMs);
  if (step.hold.kind == LockKind::kFair) {
    command.Arg(step.queue ? 1 : 0).Arg(dialect_.publish_command).Arg(LockChannel(name, LockKind::kFair));
  } else if (IsReadWrite(step.hold.kind)) {
    command.Arg(ReadTimeoutsBase(name));
  }
  command.Arg(step.least_token);
  return command;
}

RedisCommand RedisLockCommands::Release(const LockRelease& step) const {
  const std::string& name = step.hold.name;
  const LockKind kind = step.hold.kind;
  const std::string holder = LockHolder(dialect_.client_id, step.hold);
  std::vector<std::string> keys = {name, LockRecordKey(name, holder)};
  if (kind == LockKind::kFair) {
    keys.insert(keys.end(), {FairQueueKey(name), FairTimesKey(name)});
  } else {
    keys.push_back(LockChannel(name, kind));
  }
  RedisCommand command = ScriptCommand(LockReleaseScript(kind), keys);
  command.Arg(holder)
      .Arg(step.keep)
      .Arg(step.sequence)
      .Arg(step.repeated || step.gives_up ? 1 : 0)
      .Arg(dialect_.publish_command);
  if (kind == LockKind::kFair) {
    command.Arg(LockChannel(name, kind)).Arg(step.gives_up ? 1 : 0);
  } else if (IsReadWrite(kind)) {
    command.Arg(ReadTimeoutsBase(name));
  }
  return command;
}

RedisCommand RedisLockCommands::Renew(std::span<const LockRenewal* const> renewals) const {
  std::vector<std::string> keys;
  std::vector<std::string> holders;
  for (const LockRenewal* renewal : renewals) {
    holders.push_back(LockHolder(dialect_.client_id, renewal->hold));
    keys.push_back(renewal->hold.name);
    keys.push_back(LockRecordKey(renewal->hold.name, holders.back()));
  }
  RedisCommand command = ScriptCommand(LockRenewScript(), keys);
  for (size_t i = 0; i < renewals.size(); ++i) {
    command.Arg(holders[i]).Arg(LeaseMs(renewals[i]->lease));
    const HoldKey& hold = renewals[i]->hold;
    command.Arg(IsReadWrite(hold.kind) ? ReadTimeoutsBase(hold.name) : "").Arg(renewals[i]->sequence);
  }
  return std::move(command).Idempotent();
}

RedisCommand RedisLockCommands::Inspect(std::string_view name, OwnerId owner) const {
  const std::string keys[] = {std::string(name)};
  RedisCommand command = ScriptCommand(LockInspectScript(), keys);
  command.Arg(LockHolder(dialect_.client_id, {.owner = owner})).Arg(ReadTimeoutsBase(name));
  return std::move(command).Idempotent();
}

RedisCommand RedisLockCommands::ForceRelease(std::string_view name) const {
  const std::string keys[] = {std::string(name), FairQueueKey(name), FairTimesKey(name),
                              LockChannel(name, LockKind::kWrite)};
  RedisCommand command = ScriptCommand(LockForceScript(), keys);
  command.Arg(dialect_.publish_command).Arg(LockChannel(name, LockKind::kFair)).Arg(ReadTimeoutsBase(name));
  return command;
}

void RedisLockCommands::TakeAnswer(const absl::StatusOr<RedisReply>& reply, LockTry& step) {
  step.status = absl::OkStatus();
  step.outcome_unknown = false;
  step.acquired = false;
  step.hold_gone = false;
  if (!reply.ok()) {
    step.outcome_unknown = RedisOutcomeUnknown(reply.status());
    step.status = LockError(step.hold.name, reply.status());
    return;
  }
  switch (static_cast<TryAnswer>(reply->elements().empty() ? -1 : At(*reply, 0))) {
    case TryAnswer::kBusy:
      step.retry_after = At(*reply, 1) < 0 ? absl::InfiniteDuration() : absl::Milliseconds(At(*reply, 1));
      return;
    case TryAnswer::kAcquired:
      step.acquired = true;
      step.hold_count = At(*reply, 1);
      step.fencing_token = At(*reply, 2) > 0 ? std::optional(At(*reply, 2)) : std::nullopt;
      return;
    case TryAnswer::kStale: step.status = Stale(step.hold.name); return;
    case TryAnswer::kOtherKind: step.status = OtherKind(step.hold.name); return;
    case TryAnswer::kNotALock: step.status = NotALock(step.hold.name); return;
    case TryAnswer::kNoToken: step.status = NoLargerToken(step.hold.name); return;
    case TryAnswer::kLeft:
      step.status = NotALock(step.hold.name);
      step.hold_gone = true;
      return;
  }
  step.status = Unexpected(step.hold.name, *reply);
}

void RedisLockCommands::TakeAnswer(const absl::StatusOr<RedisReply>& reply, LockRelease& step) {
  step.status = absl::OkStatus();
  step.outcome_unknown = false;
  step.held = false;
  if (!reply.ok()) {
    step.outcome_unknown = RedisOutcomeUnknown(reply.status());
    step.status = LockError(step.hold.name, reply.status());
    return;
  }
  switch (static_cast<ReleaseAnswer>(reply->kind() == RedisReply::Kind::kInteger ? reply->integer() : -1)) {
    case ReleaseAnswer::kNotHeld: return;
    case ReleaseAnswer::kHeld: step.held = true; return;
    case ReleaseAnswer::kStale: step.status = Stale(step.hold.name); return;
    // The first time it took the record along with the hold.
    case ReleaseAnswer::kForgotten: step.held = step.resent; return;
  }
  step.status = Unexpected(step.hold.name, *reply);
}

void RedisLockCommands::TakeAnswer(const absl::StatusOr<RedisReply>& reply, std::span<LockRenewal* const> renewals) {
  for (size_t i = 0; i < renewals.size(); ++i) {
    LockRenewal& renewal = *renewals[i];
    renewal.held = false;
    if (!reply.ok()) {
      renewal.status = LockError(renewal.hold.name, reply.status());
    } else if (reply->elements().size() != renewals.size()) {
      renewal.status = Unexpected(renewal.hold.name, *reply);
    } else {
      const RedisReply& answer = reply->elements()[i];
      renewal.status = answer.kind() == RedisReply::Kind::kInteger
                           ? absl::OkStatus()
                           : LockError(renewal.hold.name, RedisErrorStatus(answer.text()));
      renewal.held = answer.integer() == 1;
    }
  }
}

absl::StatusOr<LockState> RedisLockCommands::InspectAnswer(const absl::StatusOr<RedisReply>& reply,
                                                           std::string_view name) {
  if (!reply.ok()) return LockError(name, reply.status());
  const int64_t left = At(*reply, 0);
  if (left == -2) return LockState();
  if (left == -3) return NotALock(name);
  if (reply->elements().size() != 3) return Unexpected(name, *reply);
  return LockState{.locked = true,
                   .kind = static_cast<LockKind>(At(*reply, 2)),
                   .owner_holds = At(*reply, 1),
                   .remaining = left < 0 ? absl::InfiniteDuration() : absl::Milliseconds(left)};
}

absl::StatusOr<std::optional<LockKind>> RedisLockCommands::ForceReleaseAnswer(const absl::StatusOr<RedisReply>& reply,
                                                                              std::string_view name) {
  if (!reply.ok()) return LockError(name, reply.status());
  if (reply->kind() != RedisReply::Kind::kInteger) return Unexpected(name, *reply);
  if (reply->integer() == -2) return NotALock(name);
  return reply->integer() < 0 ? std::nullopt : std::optional(static_cast<LockKind>(reply->integer()));
}

std::string RedisLockCommands::Channel(const HoldKey& hold) const {
  const std::string channel = LockChannel(hold.name, hold.kind);
  return hold.kind == LockKind::kFair ? channel + LockHolder(dialect_.client_id, hold) : channel;
}

}  // namespace stockade::locks_internal
