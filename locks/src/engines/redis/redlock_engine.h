#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_ENGINE_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_ENGINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redis_lock_commands.h"
#include "stockade/base/executor.h"
#include "stockade/base/mutex.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/locks/redlock_service.h"
#include "stockade/redis/redis_client.h"

namespace stockade::locks_internal {

// The RedLock algorithm: one lock kept on N servers that know nothing of each other, and held while a majority of them
// has it. Each step is sent to all at once, and ends as soon as what has not been answered cannot change its outcome;
// a server that is late runs it later, in its order. One that failed to answer is not waited for until it has answered
// again, as long as the others are a majority. What did not come to a majority is taken back.
//
// The general part counts a lease from before its try was sent to the first, less the drift: RedLock's validity.
//
// A server that loses its data and comes back within a lease can give to another what it had given before, so that two
// majorities share it. It must keep its data (appendfsync always), or stay away for the longest lease: nothing here can
// tell.
class RedlockEngine final : public LockEngine {
 public:
  // Blocks until a majority answers, at most connect_timeout; Unavailable where it does not. InvalidArgument: URLs that
  // are no independent servers.
  static absl::StatusOr<std::unique_ptr<RedlockEngine>> Connect(std::span<const std::string> urls,
                                                                const RedlockOptions& options);

  std::string_view kind() const override { return "redlock"; }
  std::string_view id() const override { return id_; }
  bool Supports(LockKind kind) const override { return kind == LockKind::kReentrant; }

  void TryMany(std::span<LockTry> tries) override;
  void RenewMany(std::span<LockRenewal> renewals, absl::Duration timeout) override;
  void ReleaseMany(std::span<LockRelease> releases) override;
  // These wait for all servers, or node_timeout.
  absl::StatusOr<LockState> Inspect(std::string_view name, OwnerId owner, absl::Duration timeout) override;
  absl::StatusOr<std::optional<LockKind>> ForceRelease(std::string_view name, absl::Duration timeout) override;
  std::unique_ptr<LockWatch> Watch(const HoldKey& hold, std::function<void()> on_hint) override;

 private:
  using Reply = absl::StatusOr<RedisReply>;

  RedlockEngine(std::string id, size_t nodes, absl::Duration node_timeout);

  absl::Status Begin(std::span<const std::string> urls, RedisOptions options);
  absl::Status AwaitMajority(absl::Duration timeout);
  using Answer = std::function<void(size_t node, const Reply& reply)>;
  void SendTo(size_t node, RedisCommand command, absl::Duration timeout, Answer answer);
  // `answer` gets that of each server, on whatever thread, perhaps after the engine's call has ended; and first, within
  // this call, the failure of those that are not to be waited for.
  void SendToAll(const RedisCommand& command, absl::Duration timeout, const Answer& answer);
  // Blocks until all have answered, or failed to.
  std::vector<Reply> AskAll(const RedisCommand& command, absl::Duration timeout);
  // Frees what a try that failed got. `refused`: servers that had not granted it.
  void UndoTry(const LockTry& step, int64_t keep, const std::vector<bool>& refused);
  absl::Duration RandomPause(absl::Duration least, absl::Duration most);

  const std::string id_;
  const absl::Duration node_timeout_;
  const RedisLockCommands commands_;
  Mutex random_mutex_;
  std::mt19937_64 random_ STOCKADE_GUARDED_BY(random_mutex_);
  std::vector<std::atomic<bool>> away_;              // By server: whether it failed to answer last time.
  InlineExecutor on_their_threads_;                  // Answers are only counted.
  std::vector<std::unique_ptr<RedisClient>> nodes_;  // Last: their callbacks use the others.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_ENGINE_H_
