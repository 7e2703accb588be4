#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_COMMANDS_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_COMMANDS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/redis/redis_command.h"
#include "stockade/redis/redis_reply.h"

namespace stockade::locks_internal {

struct RedisLockDialect {
  std::string client_id = {};               // NewRedisLockClientId().
  std::string publish_command = "PUBLISH";  // RedisClient::publish_command().
  bool tokens = true;                       // False is for kReentrant alone.
  absl::Duration token_retention = absl::InfiniteDuration();
};

// The steps of locks as commands for Redis, and what Redis answers to them. Immutable; thread-safe; sends nothing.
class RedisLockCommands {
 public:
  explicit RedisLockCommands(RedisLockDialect dialect);

  RedisCommand Try(const LockTry& step) const;
  RedisCommand Release(const LockRelease& step) const;
  // One command. On a cluster all must be in one slot.
  RedisCommand Renew(std::span<const LockRenewal* const> renewals) const;
  RedisCommand Inspect(std::string_view name, OwnerId owner) const;
  RedisCommand ForceRelease(std::string_view name) const;

  // Each fills in what the engine has to set.
  static void TakeAnswer(const absl::StatusOr<RedisReply>& reply, LockTry& step);
  static void TakeAnswer(const absl::StatusOr<RedisReply>& reply, LockRelease& step);
  static void TakeAnswer(const absl::StatusOr<RedisReply>& reply, std::span<LockRenewal* const> renewals);
  static absl::StatusOr<LockState> InspectAnswer(const absl::StatusOr<RedisReply>& reply, std::string_view name);
  static absl::StatusOr<std::optional<LockKind>> ForceReleaseAnswer(const absl::StatusOr<RedisReply>& reply,
                                                                    std::string_view name);

  // What a waiter for the hold listens to.
  std::string Channel(const HoldKey& hold) const;

 private:
  const RedisLockDialect dialect_;
  const std::string retention_ms_;  // Empty: for ever.
};

// In one command: one script's work on the server is to stay below a millisecond.
inline constexpr size_t kMostRenewalsACommand = 100;

// In whole milliseconds, upwards, and no more than Redis takes.
int64_t LeaseMs(absl::Duration lease);

// A client's error as an engine's: that there was no answer in time is Unavailable, and the lock is named.
absl::Status LockError(std::string_view name, const absl::Status& error);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_COMMANDS_H_
