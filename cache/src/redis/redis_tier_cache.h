#ifndef STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_CACHE_H_
#define STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_CACHE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "invalidation_queue.h"
#include "redis_record_reader.h"
#include "redis_tier.h"

namespace stockade::cache_internal {

// Identifies a lease that a process holds: its token, and its key in Redis. The mark of an update is one lease for each
// codec, all with one token.
struct LeaseId {
  std::string token = {};
  std::string key = {};

  friend bool operator==(const LeaseId&, const LeaseId&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const LeaseId& id) {
    return H::combine(std::move(hash), id.token, id.key);
  }
};

// A lease that the tier's thread is to renew now.
struct DueLease {
  uint64_t cache = 0;  // The cache's number.
  LeaseId id = {};
};

// What an invalidation does in the same step: a Put is granted a lease, an update sets or removes its mark.
struct InvalidationExtra {
  bool with_lease = false;
  std::string mark = {};           // Its token; empty: none.
  std::string fencing_token = {};  // In 8 bytes, of a mark that is to be set.
};

// One open cache of a tier. Its callers ask, fill and invalidate. The tier's thread renews its leases, and sends the
// invalidations that their callers could not send.
class RedisTierCache final : public TierCache {
 public:
  // `number` differs from those of all other caches that the tier has opened.
  RedisTierCache(std::shared_ptr<RedisTier> tier, uint64_t number, std::string_view name, std::string_view codec,
                 TierListener& listener);
  ~RedisTierCache() override;

  std::vector<TierAnswer> Ask(std::span<const TierAsk> questions) override;
  std::vector<TierFilled> Fill(std::span<const TierFill> fills) override;
  void Fail(std::string_view key, const TierLease& lease) override;
  uint64_t Queue(const TierTarget& target) override;
  TierInvalidated Await(uint64_t queued, bool with_lease) override;
  std::vector<TierInvalidated> AwaitMany(std::span<const uint64_t> queued, bool with_lease) override;
  absl::StatusOr<LockLease> Lock(std::string_view key, Duration timeout, const std::stop_token& stop) override;
  TierMark Hold(uint64_t queued, int64_t fencing_token) override;
  TierMark Release(uint64_t queued, const TierMark& held) override;
  absl::Status CheckStrict() override;
  bool AwaitAll(Instant deadline) override;
  void CancelWaits() override;
  Instant trusted_until() const override { return tier_->trusted_until(); }
  absl::Duration max_staleness() const override { return tier_->options().max_staleness; }
  absl::Duration max_ttl() const override { return tier_->options().max_ttl; }

  // The functions below are for the tier.

  uint64_t number() const { return number_; }
  const std::string& name() const { return name_; }
  const std::string& codec() const { return codec_; }
  TierListener& listener() const { return listener_; }
  void NotifyInvalidated(const TierReign& reign, const TierJournalEntry& entry) {
    listener_.OnInvalidated(reign.Expose(entry.position), entry.target);
  }
  ComponentMetrics& metrics() { return state_->metrics; }
  TierCacheStats Stats() const STOCKADE_REQUIRES(kTierMutex);

  // Registers the codec. Records of codecs that are not registered are not valid.
  void Register(const TierReign& reign, absl::Duration timeout) STOCKADE_EXCLUDES(kTierMutex);
  RedisCommand RegisterCommand(const TierReign& reign) const;

  bool has_leases() const STOCKADE_REQUIRES(kTierMutex) { return !state_->leases.empty(); }
  // A new reign has begun, so they are void.
  void DropLeases() STOCKADE_REQUIRES(kTierMutex) { state_->leases.clear(); }
  // Adds leases to `due` until it has `most`, and drops leases older than max_load. Returns whether more are due.
  bool CollectDueLeases(Instant now, size_t most, std::vector<DueLease>& due) STOCKADE_REQUIRES(kTierMutex);
  void ApplyRenewal(const LeaseId& id, bool renewed, Instant sent) STOCKADE_REQUIRES(kTierMutex);

  bool has_queued() const STOCKADE_REQUIRES(kTierMutex) { return state_->queue.queued() > 0; }
  // Queues the invalidations that their callers should have sent before `limit`.
  void QueueUnsent(Instant limit) STOCKADE_REQUIRES(kTierMutex) { state_->queue.EnqueueHeldBefore(limit); }
  // Takes up to `most` queued invalidations and adds the commands that send them. Returns their ids.
  std::vector<uint64_t> TakeQueued(const TierReign& reign, size_t most, std::vector<RedisCommand>& commands)
      STOCKADE_REQUIRES(kTierMutex);
  // Applies the reply to such a command; queues the invalidation again if it was not accepted. `applied`: the position
  // up to which the journal was applied when it was sent. Returns false if the next attempt has to wait.
  bool ApplyRetry(uint64_t id, const TierReign& reign, uint64_t applied, const absl::StatusOr<RedisReply>& reply)
      STOCKADE_REQUIRES(kTierMutex);

 private:
  // kOtherCodecs: the command has to name other codecs, which State::codecs has now.
  enum class SendResult { kAccepted, kOtherCodecs, kOtherReign, kFailed };
  // A call of Ask().
  struct Asking {
    const std::span<const TierAsk> questions;
    const Instant deadline;
    std::vector<TierAnswer> answers;
    std::vector<size_t> open = {};  // Questions that are to be asked.
    uint64_t heartbeat = 0;         // The heartbeat of this number has to end first.
  };
  struct HeldLease {
    Instant renew_at = {};
    Instant drop_at = {};
  };
  // A forked child leaks it, because another thread may have been changing it.
  struct State {
    InvalidationQueue queue STOCKADE_GUARDED_BY(kTierMutex);
    // Those that the invalidation of a key covers, as Redis has last listed them.
    std::string codecs STOCKADE_GUARDED_BY(kTierMutex);
    absl::flat_hash_map<LeaseId, HeldLease> leases STOCKADE_GUARDED_BY(kTierMutex) = {};
    bool waits_cancelled STOCKADE_GUARDED_BY(kTierMutex) = false;
    ComponentMetrics metrics;  // The last member, because its gauges read the others.
  };

  // Asking.
  // Waits for a trusted reign, and for the invalidations of the questions' keys that their callers send. Removes
  // questions whose keys a queued invalidation concerns. Null: the tier cannot be asked before the deadline.
  TierReignPtr AwaitReign(Asking& asking);
  // Whether ReadHits() is likely to answer questions. Otherwise it would cost a round trip for nothing.
  bool ExpectsHits() const;
  // Answers the open questions without a known version whose records are hits and have no tags. The others stay open:
  // only the script compares tags and versions.
  void ReadHits(const TierReign& reign, Asking& asking);
  void ReadHit(const TierReign& reign, const TierRead& read, TierAnswer& answer);
  // Asks the open questions once. Those that have to be asked again stay open.
  void AskOnce(const TierReign& reign, Asking& asking);
  void ReadAnswer(const TierReign& reign, std::string_view key, const std::string& token, Instant sent,
                  std::span<const RedisReply> parts, TierAnswer& answer);

  // Filling.
  bool IsStorable(const TierFill& fill) const;
  TierFilled ReadFilled(const TierReign& reign, const TierFill& fill, const absl::StatusOr<RedisReply>& reply);

  // Leases.
  void AddLease(const TierReign& reign, LeaseId id, Instant sent) STOCKADE_REQUIRES(kTierMutex);
  RedisCommand EndLeaseCommand(std::string_view key, std::string_view token, bool drop_record) const;
  // Ends a lease after all commands that were sent before, without waiting.
  void EndLeaseAsync(std::string_view key, std::string_view token);

  // Invalidations.
  bool BeginSending(uint64_t queued) STOCKADE_REQUIRES(kTierMutex);
  // Fills in `mark` if `extra` has one.
  TierInvalidated Send(uint64_t id, const InvalidationExtra& extra, Instant deadline, TierMark* mark)
      STOCKADE_EXCLUDES(kTierMutex);
  TierMark SendMark(uint64_t queued, const InvalidationExtra& extra) STOCKADE_EXCLUDES(kTierMutex);
  TierMark ReadMark(const TierReign& reign, std::span<const RedisReply> parts, std::string_view key,
                    const InvalidationExtra& extra, Instant sent) STOCKADE_REQUIRES(kTierMutex);
  void SendWithLeases(std::span<const uint64_t> queued, std::span<TierInvalidated> results)
      STOCKADE_EXCLUDES(kTierMutex);
  size_t SendSome(std::span<const uint64_t> queued, std::span<const size_t> indexes, std::span<TierInvalidated> results)
      STOCKADE_EXCLUDES(kTierMutex);
  TierInvalidated Accepted(const TierReign& reign, const absl::StatusOr<RedisReply>& reply, const std::string& key,
                           const std::string& token, Instant sent) STOCKADE_REQUIRES(kTierMutex);
  // `token` is that of the lease to grant, or empty.
  RedisCommand InvalidateCommand(const TierReign& reign, const PendingInvalidation& pending, std::string_view token,
                                 const InvalidationExtra& extra = {}) const STOCKADE_REQUIRES(kTierMutex);
  // The keys of an entry for each registered codec.
  std::vector<TierEntryKeys> CodecKeys() const STOCKADE_REQUIRES(kTierMutex);
  SendResult ApplyReply(uint64_t id, const TierReign& reign, uint64_t applied, const absl::StatusOr<RedisReply>& reply)
      STOCKADE_REQUIRES(kTierMutex);

  void Close() STOCKADE_EXCLUDES(kTierMutex);

  const std::shared_ptr<RedisTier> tier_;
  const uint64_t number_;
  const std::string name_;
  const std::string codec_;
  const TierEntryKeys keys_;
  TierListener& listener_;
  RecordReader reader_;
  std::atomic<bool> has_tags_{false};  // A record had one.
  MovingShare hit_share_;              // Of the calls of Ask() that found most of their keys.
  std::unique_ptr<State> state_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_CACHE_H_
