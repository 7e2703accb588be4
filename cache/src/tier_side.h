#ifndef STOCKADE_CACHE_SRC_TIER_SIDE_H_
#define STOCKADE_CACHE_SRC_TIER_SIDE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "flight.h"
#include "shard.h"
#include "stockade/base/lazy_thread_pool.h"
#include "stockade/base/mutex.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/cache/internal/cache_core.h"

namespace stockade::cache_internal {

// The tier of a cache: what the tier calls, and what is asked of it. The calls are virtual because only programs with
// an implementation of CacheTier link tier_side.cc.
//
// Invariants. An entry with a stamp is served only while the tier trusts that all invalidations are applied. Everything
// that comes from the tier is stored only if no invalidation of a later position has been applied: `applied` is set
// before the entries are removed, and checked under the mutex of the shard. A value that the tier does not take is the
// exception. Its stamp is the position of its lease, its flight was running since, and so the flight is detached or
// notes each later invalidation that concerns it and was applied, and its entry removed by one that is applied now.
class TierSide : public TierListener {
 public:
  explicit TierSide(CacheCore& c) : core(c), tier(c.options_.tier), codec_label(Concat("the codec of ", c.Named(""))) {}
  virtual ~TierSide() = default;

  // As tier_side.cc documents them.
  virtual std::vector<FlightPtr> Ask(std::span<const FlightPtr> flights, bool as_batch, bool nested,
                                     const Runner& runner, AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  virtual size_t Fill(std::span<const FlightPtr> flights, std::span<Loaded> loaded) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  virtual void Release(const std::vector<std::pair<FlightPtr, TierLease>>& leases) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  virtual void Put(const KeyAt& at, const Pinned& box, const EntryOptions& entry) STOCKADE_EXCLUDES(kShardMutex);
  virtual void PutAll(std::span<const KeyAt> keys, std::span<const Pinned> boxes, const EntryOptions& entry)
      STOCKADE_EXCLUDES(kShardMutex);
  virtual void InvalidateKeys(std::span<const KeyAt> keys) STOCKADE_EXCLUDES(kShardMutex);
  virtual TierInvalidated Invalidate(const TierTarget& target, absl::FunctionRef<void()> locally, bool with_lease);
  virtual TierInvalidated InvalidateKey(const KeyAt& at, absl::FunctionRef<void()> locally, std::string& key,
                                        bool with_lease);
  virtual absl::Status AwaitInvalidations(absl::Duration timeout);
  // In strict_update.cc.
  virtual absl::StatusOr<UpdateReport> Update(const KeyAt& at, LockedWrite write, absl::Duration timeout,
                                              AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  // No call waits from now on.
  virtual void CancelWaits();
  virtual void GiveBackLease(const FlightPtr& flight, AfterUnlock& after) noexcept STOCKADE_REQUIRES(kShardMutex);
  virtual void QueueUpLater(const FlightPtr& flight) STOCKADE_REQUIRES(kShardMutex);

  void OnInvalidated(uint64_t position, const TierTarget& target) override;
  void OnReset() override;
  void OnLeaseEnded(std::string_view key) override;

  bool Trusts(Instant now) const { return now < cache->trusted_until(); }
  bool MayStore(TierStamp stamp) const { return applied.load(std::memory_order_relaxed) <= stamp.position; }

  CacheCore& core;
  const std::shared_ptr<CacheTier> tier;
  const std::string codec_label;  // For errors about its exceptions.
  std::unique_ptr<TierCache> cache;
  std::atomic<uint64_t> applied{0};
  std::atomic<uint64_t> resets{0};
  std::atomic<size_t> mean_answer{size_t{256} << 10};  // Bytes of the tier's values: a moving mean, a guess at first.
  Mutex waits_mutex;                                   // Guards what updates wait for besides the time.
  CondVar waits_end;
  bool waits_cancelled STOCKADE_GUARDED_BY(waits_mutex) = false;
  std::stop_source lock_waits;
  // For the removal listener, which must not delay a heartbeat. One thread, so that it keeps the order.
  LazyThreadPool notifier{1};

 private:
  absl::Status LockLostError() const noexcept;
  absl::Status AwaitTrust(absl::Duration bound) STOCKADE_EXCLUDES(waits_mutex);
  absl::Status Settle(const KeyAt& at, std::string_view key, const TierMark& held, bool written,
                      AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  bool LoadsAlone(const Flight& flight, bool nested, Instant now) const;
  size_t AskPiece(std::span<const FlightPtr> flights, bool nested, std::vector<FlightPtr>& missing,
                  AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  void HandOnAsked(const FlightPtr& flight, bool asked, AfterUnlock& after) noexcept STOCKADE_EXCLUDES(kShardMutex);
  bool TryEncodeKey(Flight& flight) const;
  bool TakeAnswer(const FlightPtr& flight, TierAnswer answer, Instant sent, AfterUnlock& after) noexcept
      STOCKADE_EXCLUDES(kShardMutex);
  bool StoreCopy(const FlightPtr& flight, const TierRecord& record, Instant sent, bool answers, AfterUnlock& after)
      STOCKADE_EXCLUDES(kShardMutex);
  bool EndIfUseless(const FlightPtr& flight, AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  bool AnswerStale(const FlightPtr& flight, AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  void Postpone(const FlightPtr& flight, absl::Duration delay, AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  void AskAgainNow(const KeyAt& at) STOCKADE_EXCLUDES(kShardMutex);
  void EndBusy(Flight& flight) STOCKADE_REQUIRES(kShardMutex);
  void LookUpAgain(const FlightPtr& flight, Instant now, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  bool HoldsLease(const Flight& flight) STOCKADE_EXCLUDES(kShardMutex);
  TierLease TakeLease(Flight& flight) STOCKADE_EXCLUDES(kShardMutex);
  std::vector<TierInvalidated> InvalidateEach(std::span<const KeyAt> keys,
                                              absl::FunctionRef<void(size_t index, AfterUnlock& after)> locally,
                                              bool with_lease) STOCKADE_EXCLUDES(kShardMutex);
  bool PutPiece(std::span<const KeyAt> keys, std::span<const Pinned> boxes, const EntryOptions& entry, bool stores)
      STOCKADE_EXCLUDES(kShardMutex);
  bool Stores(const EntryOptions& entry) const;
  void MakeWay(const KeyAt& at, const Pinned& box, bool stores, AfterUnlock& after) STOCKADE_EXCLUDES(kShardMutex);
  void ReplaceFlight(const KeyAt& at, const Pinned& box, AfterUnlock& after) STOCKADE_REQUIRES(kShardMutex);
  FlightPtr PutFlight(const KeyAt& at, std::string key, TierLease lease) STOCKADE_EXCLUDES(kShardMutex);
  void StorePut(const FlightPtr& flight, const Loaded& put, uint64_t resets_before, AfterUnlock& after)
      STOCKADE_EXCLUDES(kShardMutex);
  void NotifyLater(absl::FunctionRef<void()> body);
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_TIER_SIDE_H_
