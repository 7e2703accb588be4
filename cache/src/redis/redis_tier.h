#ifndef STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_H_
#define STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "invalidation_queue.h"
#include "redis_tier_record.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/mutex.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/cache/redis_cache_tier.h"
#include "stockade/metrics/metric_set.h"
#include "stockade/redis/redis_client.h"
#include "tier_metrics.h"

namespace stockade::cache_internal {

// How RedisCacheTier works
//
// Redis holds the values, the leases to load them, and a journal of invalidations with a sequence number. Each step is
// one script (redis_tier_scripts.h). A thread of the tier reads the journal in each heartbeat and passes its entries to
// the listeners. A heartbeat that shows that the whole journal was applied extends the trust: it counts from the moment
// at which it was sent, so that no delay on the way can make the trust too long.
//
// The scripts also publish each entry on a channel of the tier, and the end of a lease to the processes that wait for
// it. The thread passes such entries on at once, in the journal's order. But only heartbeats advance the position up to
// which the journal is applied, and extend the trust: Redis compares a sum of the messages with its own, and sends the
// entries if they differ. So a lost, repeated or wrong message costs time and nothing else.
//
// A reign begins when the journal may have lost something: another server process, or a lost state. The scripts name
// the incarnation of their reign, and the client sends them to that reign's server process only. So nothing of one
// reign is combined with another.

// A reign, as this process sees it. Immutable.
struct TierReign {
  uint64_t ordinal = 0;  // In this process, from 1.
  std::string incarnation = {};
  std::optional<std::string> run_id = {};  // Unknown if the user may not run INFO.

  // Positions as caches see them: those of a later reign are larger, although each journal begins at 1.
  static constexpr int kPositionBits = 40;
  uint64_t Expose(uint64_t position) const { return ordinal << kPositionBits | position; }

  RedisCallOptions Call(absl::Duration timeout) const { return {.timeout = timeout, .on_server = run_id}; }
};

struct HeldLease {
  std::string key = {};  // Of the lease in Redis.
  uint64_t reign = 0;
  Instant renew_at = {};
  Instant give_up_at = {};
};

// An open cache. The tier's mutex guards all that is not const or atomic.
struct TierSpace {
  TierSpace(const TierKeys& tier_keys, std::string_view cache_name, std::string_view codec_id,
            TierListener& cache_listener, TierTokens* tokens, MetricsRegistry* registry);

  const std::string cache;
  const std::string codec;
  const TierEntryKeys keys;
  TierListener& listener;
  const RedisCommand read_state;  // The incarnation, and the positions that its records are compared with.
  InvalidationQueue queue;
  absl::flat_hash_map<std::string, HeldLease> leases;  // By token.
  std::string codecs;                 // Those that the invalidation of a key covers, as Redis has last listed them.
  bool waits_cancelled = false;       // By the destruction of the cache.
  bool hears = false;                 // The subscriptions' thread calls the listener.
  std::atomic<bool> has_tags{false};  // A record had one.
  std::atomic<size_t> lease_count{0};
  std::atomic<size_t> pending_count{0};
  ComponentMetrics metrics;
};

// The result of one invalidation script.
struct InvalidationReply {
  enum class Kind { kAccepted, kAdopt, kCodecs, kFailed };
  Kind kind = Kind::kFailed;
  uint64_t position = 0;
  bool granted = false;
  bool dropped_tags = false;
  std::string codecs = {};   // kCodecs: those that are registered.
  absl::Status status = {};  // kAdopt, kFailed.
};

class RedisTier final : public CacheTier, public std::enable_shared_from_this<RedisTier> {
 public:
  static absl::StatusOr<std::shared_ptr<CacheTier>> Connect(std::string_view url, RedisCacheTierOptions options);
  ~RedisTier() override;
  RedisTier(const RedisTier&) = delete;
  RedisTier& operator=(const RedisTier&) = delete;

  Clock* clock() const override { return clock_; }
  absl::StatusOr<std::unique_ptr<TierCache>> Open(std::string_view cache, std::string_view codec,
                                                  TierListener& listener) override;
  TierStats Stats() const override;

  const RedisCacheTierOptions& options() const { return options_; }
  const TierKeys& keys() const { return keys_; }
  Instant trusted_until() const { return Instant::FromNanoseconds(trusted_until_.load(std::memory_order_acquire)); }
  bool InForkedChild() const { return fork_.InForkedChild(); }
  void CheckFork() const { fork_.Check("RedisCacheTier", options_.prefix); }

  // What a question waits for: a reign whose server has answered a heartbeat, and the invalidations of its key that are
  // on their way. Null: the tier cannot be asked before `deadline`. Keys that a queued invalidation concerns are
  // removed from `open`. `beat`: the number of heartbeats that must have begun and ended.
  std::shared_ptr<const TierReign> AwaitReign(const TierSpace& space, std::span<const TierAsk> questions,
                                              std::vector<size_t>& open, uint64_t beat, Instant deadline);
  // Waits until the connection for calls is to the server of `reign`, too.
  void AwaitServer(const TierReign& reign, Instant deadline);
  // The present reign, null if there is none yet or the tier is away.
  std::shared_ptr<const TierReign> ReignNow() const;
  // A reply showed that the reign may be over: lets a heartbeat find out. Returns the number for AwaitReign().
  uint64_t RequestBeat();
  // Registers the codec of `space`.
  void Register(const TierSpace& space, const TierReign& reign, absl::Duration timeout);

  // Judges the status of a call. If the server is silent, the tier is away.
  void NoteReply(const absl::Status& status);

  // Messages. Both are empty if there are none.
  std::string_view publish_command() const { return options_.pubsub ? calls_->publish_command() : std::string_view(); }
  std::string_view inbox() const { return subscribed_ ? std::string_view(inbox_id_) : std::string_view(); }
  // The command whose reply tells whether a process subscribes to its inbox; empty if there is none. In a cluster,
  // PUBLISH counts the subscribers of one node, and the subscriptions may be at any.
  std::string_view probe_command() const {
    return in_cluster_ && !calls_->sharded_channels() ? std::string_view() : publish_command();
  }

  // Leases.
  std::vector<std::string> NewTokens(size_t count);
  void Hold(TierSpace& space, const std::string& token, HeldLease lease);
  void Unhold(TierSpace& space, const std::string& token);
  RedisCommand EndCommand(const TierSpace& space, std::string_view key, std::string_view token, bool drop) const;
  // Ends a lease after all that was sent before, without waiting.
  void GiveBack(const TierSpace& space, std::string_view key, std::string_view token);

  // Invalidations.
  uint64_t Queue(TierSpace& space, const TierTarget& target);
  TierInvalidated Await(TierSpace& space, uint64_t id, bool with_lease);
  bool AwaitAll(const TierSpace& space, Instant deadline);
  void CancelWaits(TierSpace& space);

  RedisClient& calls() { return *calls_; }
  double Share();  // A random number in [0, 1).

  void Close(const std::shared_ptr<TierSpace>& space);

 private:
  // Messages that wait for the thread, or that no heartbeat has confirmed. Beyond it, heartbeats have to do.
  static constexpr size_t kMaxMessages = 10'000;
  using Spaces = std::map<std::string, std::shared_ptr<TierSpace>, std::less<>>;
  RedisTier(RedisCacheTierOptions options, bool in_cluster);

  // Waits for a first answer. Unless the options require it, a server that does not answer now is no error.
  absl::Status Begin(std::string_view url);
  absl::Status Subscribe();
  // Called by the subscriptions' thread.
  void OnJournalMessage(std::string_view message);
  void OnInboxMessage(std::string_view message);

  // The thread.
  void Loop();
  // A heartbeat. Its calls end at `deadline`, or later if it finds a new reign.
  absl::Status Beat(Instant deadline);
  absl::Status Follow(Instant deadline);
  void NoteBeat(const absl::Status& status);
  absl::Status Adopt(Instant deadline);
  // kAborted: adopt first.
  absl::Status Sync(const TierReign& reign, Instant deadline);
  // Passes entries that follow `applied` without a gap to the listeners, unless messages have, and advances it; or
  // returns false.
  bool Apply(const TierReign& reign, std::span<const RedisReply> entries, uint64_t& applied);
  void ApplyEarly(const TierReign& reign, uint64_t& applied);
  static void NoteApplied(const Spaces& spaces, std::string_view cache);
  void TakeMessages();
  static void Report(const Spaces& spaces, const TierReign& reign, const TierJournalEntry& entry);
  void NoteSubscribed();
  void Leave(std::string_view incarnation);
  void Reset();
  template <typename Call>
  void CallListeners(const Call& call);
  bool RenewLeases();
  void SendQueued();
  bool AnyLease() const STOCKADE_REQUIRES(mutex_);
  bool AnyQueued() const STOCKADE_REQUIRES(mutex_);

  int64_t MostBytesPerSync() const;
  TierInvalidated Send(TierSpace& space, uint64_t id, bool with_lease, Instant deadline);
  RedisCommand InvalidateCommand(const TierSpace& space, const TierReign& reign, const PendingInvalidation& pending,
                                 std::string_view token) const STOCKADE_REQUIRES(mutex_);
  static InvalidationReply ReadInvalidation(const absl::StatusOr<RedisReply>& reply);
  void Accepted(TierSpace& space, uint64_t id, const TierReign& reign, const InvalidationReply& reply)
      STOCKADE_REQUIRES(mutex_);
  static void NoteFailed(PendingInvalidation& pending, const TierReign& reign, uint64_t sent_after,
                         const absl::Status& status);
  void HoldLocked(TierSpace& space, const std::string& token, HeldLease lease) STOCKADE_REQUIRES(mutex_);
  uint64_t RequestBeatLocked() STOCKADE_REQUIRES(mutex_);
  bool Silent() const;
  // Whether waiting does not help: somebody has to change the options, or what the user may do.
  static bool IsRefusal(const absl::Status& status);

  const RedisCacheTierOptions options_;
  const bool in_cluster_;
  const TierKeys keys_;
  const base_internal::ForkGuard fork_;
  Clock* const clock_ = Clock::System();

  std::atomic<int64_t> trusted_until_{Instant::InfinitePast().nanoseconds()};
  std::atomic<int64_t> last_reply_{0};

  mutable Mutex mutex_;
  CondVar changed_;  // Anything that a call may wait for.
  CondVar wake_;     // The thread has something to do.
  std::shared_ptr<const TierReign> reign_ STOCKADE_GUARDED_BY(mutex_);
  uint64_t applied_ STOCKADE_GUARDED_BY(mutex_) = 0;  // Up to this position of the reign's journal.
  Spaces spaces_ STOCKADE_GUARDED_BY(mutex_);
  TierTokens tokens_ STOCKADE_GUARDED_BY(mutex_);
  uint64_t beats_begun_ STOCKADE_GUARDED_BY(mutex_) = 0;
  uint64_t beats_ended_ STOCKADE_GUARDED_BY(mutex_) = 0;
  uint64_t newest_accepted_ STOCKADE_GUARDED_BY(mutex_) = 0;  // As exposed.
  bool beat_requested_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::atomic<bool> away_{false};                     // Written with the mutex held.
  bool calling_ STOCKADE_GUARDED_BY(mutex_) = false;  // The thread calls listeners.
  bool stopping_ STOCKADE_GUARDED_BY(mutex_) = false;
  std::vector<std::string> received_ STOCKADE_GUARDED_BY(mutex_);  // Messages of the journal.

  // Only the thread, and Connect() before it starts.
  std::deque<std::string> left_;   // Incarnations that are over.
  std::deque<std::string> early_;  // Messages that the listeners have got: of the positions after applied_, in order.
  std::string sum_;  // Of the messages up to the last of early_, or another one: then the heartbeat reads all.
  bool warned_identity_ = false;
  bool warned_subscription_ = false;
  // What was logged last about heartbeats.
  enum class Logged { kSuccess, kFailure, kRefusal } logged_ = Logged::kSuccess;
  int64_t bytes_per_sync_;  // Less after a failure.
  Instant next_send_;       // Of queued invalidations, after a failure.

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
