#ifndef STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_H_
#define STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "redis_tier_record.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/mutex.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/redis/redis_client.h"
#include "tier_metrics.h"

namespace stockade::cache_internal {

class RedisTierCache;

// The mutex of a tier, RedisTier::mutex(), for clang's thread-safety analysis. It stands for the mutexes of all tiers:
// a thread never holds two.
class STOCKADE_CAPABILITY("mutex of a tier") TierMutex {};
inline constexpr TierMutex kTierMutex;

// A reign, as this process sees it. Immutable.
struct TierReign {
  uint64_t ordinal = 0;  // In this process, from 1.
  std::string incarnation = {};
  std::optional<std::string> run_id = {};  // Unknown if the user may not run INFO.

  // Positions as caches see them: those of a later reign are larger, although each journal begins at 1.
  static constexpr int kPositionBits = 40;
  uint64_t Expose(uint64_t position) const { return ordinal << kPositionBits | position; }
  bool Exposes(uint64_t exposed) const { return exposed >> kPositionBits == ordinal; }
  static uint64_t Hide(uint64_t exposed) { return exposed & ((uint64_t{1} << kPositionBits) - 1); }

  RedisCallOptions Call(absl::Duration timeout) const { return {.timeout = timeout, .on_server = run_id}; }
};
using TierReignPtr = std::shared_ptr<const TierReign>;

// How RedisCacheTier works
//
// Redis holds the values, the leases to load them, and a journal of invalidations with a sequence number. Each step is
// one script (redis_tier_scripts.h). A thread of the tier reads the journal in each heartbeat and passes its entries to
// the listeners. A heartbeat that shows that the whole journal was applied extends the trust. The
// trust counts from the moment at which the heartbeat was sent, so that no delay can make it too long.
//
// The scripts also publish each entry on a channel of the tier, and the end of a lease to the processes that wait for
// it. The thread passes such entries on at once, in the journal's order. But only heartbeats advance the position up to
// which the journal is applied, and extend the trust: Redis compares a sum of the messages with its own, and sends the
// entries if they differ. So a lost, repeated or wrong message costs time and nothing else.
//
// A reign begins when the journal may have lost something: another server process, or a lost state. The scripts name
// the incarnation of their reign, and the client sends them to that reign's server process only. So nothing of one
// reign is combined with another.
//
// A RedisTierCache is one open cache: its questions, fills, leases and invalidations. RedisTier is the rest: the
// connections, the thread, and the state that all caches share. One mutex guards a tier and all its caches.

class RedisTier final : public CacheTier, public std::enable_shared_from_this<RedisTier> {
 public:
  static absl::StatusOr<std::shared_ptr<CacheTier>> Connect(std::string_view url, RedisCacheTierOptions options);
  ~RedisTier() override;
  RedisTier(const RedisTier&) = delete;
  RedisTier& operator=(const RedisTier&) = delete;

  Clock* clock() const override { return clock_; }
  bool has_locks() const override { return options_.locks != nullptr; }
  absl::StatusOr<std::unique_ptr<TierCache>> Open(std::string_view cache, std::string_view codec,
                                                  TierListener& listener) override;
  TierStats Stats() const override;

  // The functions below are for the caches.

  const RedisCacheTierOptions& options() const { return options_; }
  const TierKeys& keys() const { return keys_; }
  bool InForkedChild() const { return fork_.InForkedChild(); }
  void CheckFork() const { fork_.Check("RedisCacheTier", options_.prefix); }
  ComponentMetrics& metrics() { return metrics_; }
  RedisClient& calls() { return *calls_; }

  Mutex& mutex() const STOCKADE_RETURN_CAPABILITY(kTierMutex) { return mutex_; }
  // Waits until something changes for which a call may wait. Returns false if `deadline` has passed.
  bool AwaitChange(Instant deadline) STOCKADE_REQUIRES(kTierMutex) {
    return changed_.WaitUntil(*clock_, mutex(), deadline);
  }
  void NotifyChange() { changed_.NotifyAll(); }
  void WakeThread() { wake_.NotifyOne(); }

  // Whether the server is not asked, because it does not answer.
  bool away() const { return away_; }
  // Notes whether the server has replied to a call. If it is silent, the tier is away.
  void RecordReply(const absl::Status& status) STOCKADE_EXCLUDES(kTierMutex);

  Instant trusted_until() const { return Instant::FromNanoseconds(trusted_until_.load(std::memory_order_acquire)); }
  // Null before the first one.
  const TierReignPtr& reign() const STOCKADE_REQUIRES(kTierMutex) { return reign_; }
  // The same; also null while the tier is away.
  TierReignPtr UsableReign() const STOCKADE_REQUIRES(kTierMutex) { return away_ ? nullptr : reign_; }
  // Waits until the heartbeat of this number has ended. Null: the tier is away, or `deadline` has passed.
  TierReignPtr AwaitReign(uint64_t heartbeat, Instant deadline) STOCKADE_REQUIRES(kTierMutex);
  // Whether questions can be asked: the heartbeat of this number has ended, and the tier is trusted. If it is not
  // trusted, requests a heartbeat.
  bool IsReady(uint64_t heartbeat) STOCKADE_REQUIRES(kTierMutex);
  // A reply showed that the reign may be over. Returns the number of the heartbeat that finds out.
  uint64_t RequestHeartbeat() STOCKADE_REQUIRES(kTierMutex);
  // Waits until the connection for calls is to the server of `reign`, too.
  void AwaitServer(const TierReign& reign, Instant deadline) STOCKADE_EXCLUDES(kTierMutex);

  // Messages. Both are empty if there are none.
  std::string_view publish_command() const { return options_.pubsub ? calls_->publish_command() : std::string_view(); }
  std::string_view inbox() const { return subscribed_ ? std::string_view(inbox_id_) : std::string_view(); }
  // The command whose reply tells whether a process subscribes to its inbox; empty if there is none. In a cluster,
  // PUBLISH counts the subscribers of one node, and the subscriptions may be at any.
  std::string_view probe_command() const {
    return in_cluster_ && !calls_->sharded_channels() ? std::string_view() : publish_command();
  }

  TierTokens& tokens() STOCKADE_REQUIRES(kTierMutex) { return tokens_; }
  std::string NewLeaseToken() STOCKADE_REQUIRES(kTierMutex) {
    return tokens_.LeaseToken(probe_command().empty() ? std::string_view() : inbox());
  }

  // How many invalidations may be sent before the next heartbeat, if there are many.
  size_t MostInvalidations() const STOCKADE_REQUIRES(kTierMutex);

  // Removes a cache. No listener of it is called afterwards. Returns false if it was never added.
  bool Remove(const RedisTierCache& cache) STOCKADE_REQUIRES(kTierMutex);

  // The position up to which the reign's journal is applied.
  uint64_t applied() const STOCKADE_REQUIRES(kTierMutex) { return applied_; }
  // The largest position of an accepted invalidation, as exposed.
  uint64_t newest_accepted() const STOCKADE_REQUIRES(kTierMutex) { return newest_accepted_; }
  void RecordAccepted(uint64_t position) STOCKADE_REQUIRES(kTierMutex) {
    newest_accepted_ = std::max(newest_accepted_, position);
    NotifyChange();
  }

 private:
  // The open caches, by name.
  using Caches = std::map<std::string, RedisTierCache*, std::less<>>;
  // Messages that wait for the thread, and those that no heartbeat has confirmed yet. Further ones are dropped.
  static constexpr size_t kMaxMessages = 10'000;

  RedisTier(RedisCacheTierOptions options, bool in_cluster);

  // Waits for a first answer. Unless the options require it, a server that does not answer now is no error.
  absl::Status Start(std::string_view url);
  absl::Status Subscribe();
  // The subscriptions' thread calls these.
  void OnJournalMessage(std::string_view message);
  void OnInboxMessage(std::string_view message);

  // The thread.
  void Run();
  bool RenewLeases();
  void SendQueued();
  // Calls `call` with the open caches, none of which is destroyed before it returns.
  void WithCaches(absl::FunctionRef<void(const Caches&)> call) STOCKADE_EXCLUDES(kTierMutex);
  // Null if the cache was destroyed.
  RedisTierCache* FindCache(uint64_t number) STOCKADE_REQUIRES(kTierMutex);

  // The heartbeat, in redis_tier_heartbeat.cc. Its calls end at `deadline`, or later if it finds a new reign.
  absl::Status Heartbeat(Instant deadline);
  void LogHeartbeat(const absl::Status& status);
  void CheckSubscriptions();
  absl::Status ReadJournal(Instant deadline);
  absl::Status Adopt(Instant deadline);
  // Returns the commands that register the codecs of the open caches; nullopt if `reign` is the present one.
  std::optional<std::vector<RedisCommand>> BeginReign(const std::shared_ptr<TierReign>& reign, uint64_t applied);
  void MarkEnded(std::string_view incarnation);
  // kAborted: adopt first.
  absl::Status Sync(Instant deadline);
  // Advances `applied`. Returns whether it has reached the end of the journal.
  absl::StatusOr<bool> ApplySync(const TierReign& reign, const RedisReply& reply, uint64_t& applied);
  // Returns false if the entries do not follow `applied`, or one cannot be read.
  bool ApplyEntries(const TierReign& reign, std::span<const RedisReply> entries, uint64_t& applied);
  void ApplyMessages(std::vector<std::string> messages);
  // All that the caches have in memory may be outdated.
  void ResetCaches();
  void EndTrust() { trusted_until_.store(Instant::InfinitePast().nanoseconds(), std::memory_order_release); }

  // Whether waiting does not help: somebody has to change the options, or the rights of the user.
  static bool IsRefusal(const absl::Status& status);
  bool IsSilent() const { return clock_->Now() - Instant::FromNanoseconds(last_reply_) >= options_.timeout; }

  const RedisCacheTierOptions options_;
  const bool in_cluster_;
  const TierKeys keys_;
  const base_internal::ForkGuard fork_;
  Clock* const clock_ = Clock::System();
  std::atomic<int64_t> trusted_until_{Instant::InfinitePast().nanoseconds()};
  std::atomic<int64_t> last_reply_{0};
  std::atomic<uint64_t> opened_{0};  // The number of the cache that was opened last.

  mutable Mutex mutex_;
  CondVar changed_;  // Anything that a call may wait for.
  CondVar wake_;     // The thread has something to do.
  TierReignPtr reign_ STOCKADE_GUARDED_BY(kTierMutex);
  uint64_t applied_ STOCKADE_GUARDED_BY(kTierMutex) = 0;
  Caches caches_ STOCKADE_GUARDED_BY(kTierMutex);
  TierTokens tokens_ STOCKADE_GUARDED_BY(kTierMutex);
  uint64_t heartbeats_begun_ STOCKADE_GUARDED_BY(kTierMutex) = 0;
  uint64_t heartbeats_ended_ STOCKADE_GUARDED_BY(kTierMutex) = 0;
  bool heartbeat_requested_ STOCKADE_GUARDED_BY(kTierMutex) = false;
  uint64_t newest_accepted_ STOCKADE_GUARDED_BY(kTierMutex) = 0;
  std::atomic<bool> away_{false};                              // Written with the mutex held.
  bool thread_calls_ STOCKADE_GUARDED_BY(kTierMutex) = false;  // The thread calls listeners.
  // The cache whose listener the subscriptions' thread calls.
  const RedisTierCache* inbox_calls_ STOCKADE_GUARDED_BY(kTierMutex) = nullptr;
  bool stopping_ STOCKADE_GUARDED_BY(kTierMutex) = false;
  std::vector<std::string> received_ STOCKADE_GUARDED_BY(kTierMutex);  // Messages of the journal.

  // Only the thread, and Connect() before it starts.
  std::deque<std::string> ended_;        // Incarnations of reigns that are over.
  std::deque<std::string> unconfirmed_;  // Messages that the listeners got: of the positions after applied_, in order.
  std::string sum_;  // Of the messages up to the last unconfirmed one. If it differs, the next sync reads all entries.
  const int64_t max_bytes_per_sync_;
  int64_t bytes_per_sync_ = max_bytes_per_sync_;  // Less after a failure.
  bool warned_about_run_id_ = false;
  bool warned_about_subscription_ = false;
  // The last thing that was logged about heartbeats.
  enum class Logged { kSuccess, kFailure, kRefusal } logged_ = Logged::kSuccess;
  Instant next_retry_;  // Of queued invalidations, after a failure.

  std::unique_ptr<RedisClient> calls_;    // Questions, fills, and invalidations by their callers.
  std::unique_ptr<RedisClient> service_;  // Heartbeats, leases, queued invalidations, and messages.
  const std::string inbox_id_;
  std::atomic<bool> subscribed_{false};  // To the inbox. May be late.
  RedisSubscription journal_channel_;
  RedisSubscription inbox_;
  std::thread thread_;
  ComponentMetrics metrics_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_H_
