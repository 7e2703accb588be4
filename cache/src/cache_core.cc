// Beginning and end of a cache.

#include "stockade/cache/internal/cache_core.h"

#include <utility>

#include "shard.h"
#include "stockade/base/strings.h"
#include "tier_side.h"

namespace stockade::cache_internal {
namespace {

constexpr size_t kAsyncReadThreads = 2;

}  // namespace

CacheCore::CacheCore(LoadingCacheOptions&& options, Has has, Slab::Type slots)
    : SingleFlight(std::move(options), has, slots),
      puts_are_plain_(options_.tier == nullptr && !has.weigh && !has.on_removal &&
                      options_.ttl == absl::InfiniteDuration() && !idle_.enabled()),
      hits_are_checked_(options_.tier != nullptr || idle_.enabled()),
      write_label_(Concat("the write of an update of ", Named(""))),
      key_locks_(std::make_unique<KeyLocks>()),
      async_read_pool_(kAsyncReadThreads) {}

CacheCore::~CacheCore() = default;

void CacheCore::Shutdown() {
  CheckNotInLoader();
  CheckNotInListener();
  gate_->Close();
  if (tier_ != nullptr) tier_->CancelWaits();
  for (size_t index = 0; index < shard_count_; ++index) {
    AfterUnlock after(*this);
    Waiter::List cancelled;  // They wait for a lock.
    {
      Shard& shard = shards_[index];
      const ShardLock lock(shard);
      shard.closed = true;
      shard.flights.ForEach([&](Flight& flight) STOCKADE_REQUIRES(kShardMutex) {
        if (!flight.answered()) AnswerFlight(flight, CancelledError(), after);
      });
      for (auto& [hash, updates] : shard.updates) Waiter::MoveAll(updates.parked, cancelled, false);
      Waiter::MoveAll(shard.ready, cancelled, false);
    }
    for (const std::shared_ptr<Waiter>& waiter : cancelled) {
      const AsyncPtr async = std::static_pointer_cast<AsyncCall>(waiter);
      StopWatching(*async);
      Reply(async, CancelledError());
    }
    after.Run();
  }
  gate_->AwaitEmpty();
  AwaitReads(reader());
  if (tier_ != nullptr) {
    tier_->cache.reset();
    tier_->notifier.Finish();
  }
  timers_.reset();
  async_read_pool_.Finish();
  refresh_pool_.Finish();
  for (size_t index = 0; index < shard_count_; ++index) Empty(shards_[index]);
  FlushRetired();
}

absl::Status CacheCore::OpenTier() {
  if (options_.tier == nullptr) return absl::OkStatus();
  absl::Status opened = Guarded<absl::Status>("the tier", [&] { return options_.tier->join_(*this); });
  if (!opened.ok()) tier_.reset();
  return opened;
}

absl::Status CacheCore::SetMaxWeight(int64_t max_weight) {
  CheckFork();
  CallGate::Call inside(*gate_, 0);
  if (!inside.inside()) return CancelledError();
  return Guarded<absl::Status>("a change of max_weight", [&] {
    absl::Status valid = CheckMaxWeight(options_.name, max_weight);
    if (valid.ok()) Bound(max_weight);
    return valid;
  });
}

CacheStats CacheCore::Stats() const {
  CheckFork();
  CacheStats stats{.entries = size(),
                   .weight = weight(),
                   .max_weight = max_weight(),
                   .flights = flights_.load(std::memory_order_relaxed),
                   .waiters = waiters_.load(std::memory_order_relaxed)};
  try {
    if (metrics_.enabled()) ReadCounts(*metrics_.set(), stats);
    if (options_.tier == nullptr) return stats;
    for (TierCacheStats& cache : options_.tier->Stats().caches) {
      if (cache.cache == options_.name) stats.tier = std::move(cache);
    }
  } catch (...) {
    LogThrown("Stats() lacks some counts");
  }
  return stats;
}

absl::Status CacheCore::AwaitInvalidations(absl::Duration timeout) {
  CheckFork();
  CallGate::Call inside(*gate_, 0);
  if (!inside.inside()) return CancelledError();
  if (tier_ == nullptr) return absl::OkStatus();
  return Guarded<absl::Status>("the tier", [&] { return tier_->AwaitInvalidations(timeout); });
}

}  // namespace stockade::cache_internal
