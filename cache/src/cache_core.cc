// Construction and destruction, errors, counts and threads.

#include "stockade/cache/internal/cache_core.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::cache_internal {
namespace {

constexpr absl::Duration kSystemSweepInterval = absl::Minutes(1);
constexpr size_t kRefreshThreads = 2;
constexpr size_t kAsyncReadThreads = 2;
constexpr absl::Duration kReclaimDelay = absl::Milliseconds(50);

MetricSet::GaugeReader Reader(const std::atomic<int64_t>& count) {
  return [&count] { return static_cast<double>(count.load(std::memory_order_relaxed)); };
}

}  // namespace

absl::Status EmptyLoaderError(std::string_view name) {
  return absl::InvalidArgumentError(Concat("LoadingCache '", name, "': the loader is empty"));
}

void FatalStatus(const absl::Status& status) {
  const absl::string_view text = status.message();
  Fatal({text.data(), text.size()});
}

CacheCore::CacheCore(LoadingCacheOptions&& options, Has has, Slab::Type slots)
    : options_(std::move(options)),
      loader_label_(Concat("the loader of ", Named(""))),
      has_(has),
      puts_are_plain_(options_.tier == nullptr && !has.weigh && !has.on_removal &&
                      options_.ttl == absl::InfiniteDuration()),
      weigher_label_(Concat("the weigher of ", Named(""))),
      listener_label_(Concat("the removal listener of ", Named(""))),
      write_label_(Concat("the write of an update of ", Named(""))),
      keys_label_(Named(": a key, its Hash or its Eq")),
      freshness_(options_),
      shard_count_(
          std::clamp<size_t>(std::bit_floor(static_cast<uint64_t>(options_.max_weight) / 64), 1, CallGate::kStripes)),
      shard_mask_(shard_count_ - 1),
      full_shard_(
          static_cast<int64_t>(0.9 * static_cast<double>(options_.max_weight) / static_cast<double>(shard_count_))),
      indexes_(std::make_unique<EntryIndex[]>(shard_count_)),
      shards_(std::make_unique<Shard[]>(shard_count_)),
      key_locks_(std::make_unique<KeyLocks>()),
      sweep_interval_(options_.sweep_interval.value_or(options_.clock == Clock::System() ? kSystemSweepInterval
                                                                                         : absl::InfiniteDuration())),
      timers_(std::in_place, options_.clock),
      async_read_pool_(kAsyncReadThreads),
      refresh_pool_(kRefreshThreads),
      metrics_(options_.metrics, CacheMetricDefs(), {{"cache", options_.name}}) {
  for (size_t i = 0; i < shard_count_; ++i) {
    if (options_.strict) indexes_[i].Hide();  // Strict reads go through the key's lock.
    shards_[i].entries.Use(slots, indexes_[i]);
  }
  metrics_.AddGauge(kFlights, Reader(flights_));
  metrics_.AddGauge(kWaiters, Reader(waiters_));
  metrics_.AddGauge(kEntries, Reader(entries_));
  metrics_.AddGauge(kWeight, Reader(weight_));
  metrics_.AddGauge(kMaxWeight, [bound = static_cast<double>(options_.max_weight)] { return bound; });
}

CacheCore::~CacheCore() = default;

void CacheCore::Shutdown() {
  CheckNotInLoader();
  CheckNotInListener();
  gate_->Close();
  if (tier_ != nullptr) tier_->cache->CancelWaits();
  for (size_t index = 0; index < shard_count_; ++index) {
    AfterUnlock after(*this);
    Waiter::List cancelled;  // They wait for a lock.
    {
      Shard& shard = shards_[index];
      const ShardLock lock(shard);
      shard.closed = true;
      shard.flights.ForEach([&](Flight& flight) STOCKADE_REQUIRES(kShardMutex) {
        if (!flight.answered) AnswerFlight(flight, CancelledError(), after);
      });
      for (auto& [hash, updates] : shard.updates) Waiter::MoveAll(updates.parked, cancelled, false);
      Waiter::MoveAll(shard.ready, cancelled, false);
    }
    for (const std::shared_ptr<Waiter>& waiter : cancelled) {
      const AsyncPtr async = std::static_pointer_cast<AsyncCall>(waiter);
      StopWatching(*async);
      CountRequest(async->call);
      Deliver(async, CancelledError());
    }
  }
  gate_->AwaitEmpty();
  AwaitReads(this);
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

int64_t CacheCore::size() const {
  CheckFork();
  return entries_.load(std::memory_order_relaxed);
}

int64_t CacheCore::weight() const {
  CheckFork();
  return weight_.load(std::memory_order_relaxed);
}

void CacheCore::AddEntries(int64_t count, int64_t weight) {
  // All shards share these lines, so they are only written if need be.
  if (count != 0) entries_.fetch_add(count, std::memory_order_relaxed);
  if (weight != 0) weight_.fetch_add(weight, std::memory_order_relaxed);
}

void CacheCore::CountRemoval(RemovalCause cause) noexcept {
  switch (cause) {
    case RemovalCause::kInvalidated: return Count(kEvictionInvalidated);
    case RemovalCause::kReplaced: return;
    case RemovalCause::kExpired: return Count(kEvictionExpired);
    case RemovalCause::kSize: return Count(kEvictionSize);
  }
}

std::string CacheCore::Named(std::string_view rest) const { return Concat("LoadingCache '", options_.name, "'", rest); }

absl::Status CacheCore::CancelledError() const noexcept {
  return StatusWithText(absl::StatusCode::kCancelled, [&] { return Named(" is being destroyed"); });
}

absl::Status CacheCore::NoMemoryError() const noexcept {
  return StatusWithText(absl::StatusCode::kResourceExhausted, [&] { return Named(": there is no memory"); });
}

absl::Status CacheCore::DeadlineError() const noexcept {
  return StatusWithText(absl::StatusCode::kDeadlineExceeded,
                        [&] { return Named(": the time-out passed before a load ended"); });
}

absl::Status CacheCore::StoppedError() const noexcept {
  return StatusWithText(absl::StatusCode::kCancelled, [&] { return Named(": the caller requested a stop"); });
}

absl::Status CacheCore::HardTimeoutError() const noexcept {
  return StatusWithText(absl::StatusCode::kDeadlineExceeded, [&] {
    return Named(Concat(": a load took longer than ", absl::FormatDuration(options_.load_hard_timeout)));
  });
}

void CacheCore::NoCallbackFatal() const { Fatal(Named(": GetAsync() was called without a callback")); }

absl::Status CacheCore::ThrownError() const noexcept {
  return Guarded<absl::Status>(keys_label_, []() -> absl::Status { throw; });
}

void CacheCore::LogThrown(std::string_view consequence) const noexcept {
  LogParts(LogSeverity::kError, ThrownError().message(), "; ", consequence);
}

void CacheCore::LogThrownBy(std::string_view what) noexcept {
  const auto thrown = GuardCallback<absl::Status>(what, []() -> absl::Status { throw; });
  LogParts(LogSeverity::kError, thrown.message());
}

Executor* CacheCore::RefreshExecutor() {
  return options_.refresh_executor != nullptr ? options_.refresh_executor : &refresh_pool_;
}

absl::Status CacheCore::StartRefreshThreads() {
  return options_.refresh_executor != nullptr ? absl::OkStatus() : refresh_pool_.Start();
}

void CacheCore::CheckNotInLoader() const {
  for (const LoaderFrame* frame = LoaderFrame::Innermost(); frame != nullptr; frame = frame->outer()) {
    if (frame->flight()->cache() == this) DestroyedFromWithin("loader");
  }
}

void CacheCore::DestroyedFromWithin(std::string_view callback) const {
  Fatal(Named(Concat(" destroyed by its own ", callback)));
}

absl::Status CacheCore::ScheduleReclaim(Executor::Task reclaim) {
  struct Reclaimer {
    ForkGuard fork_guard;
    TimerQueue timers{Clock::System()};
  };
  // Never destroyed: caches may live as long. A forked child has neither the thread nor, perhaps, a free mutex.
  static std::atomic<Reclaimer*> current{new Reclaimer};
  Reclaimer* reclaimer = current.load(std::memory_order_acquire);
  if (reclaimer->fork_guard.InForkedChild()) {
    auto fresh = std::make_unique<Reclaimer>();
    if (current.compare_exchange_strong(reclaimer, fresh.get(), std::memory_order_acq_rel)) reclaimer = fresh.release();
  }
  if (absl::Status started = reclaimer->timers.Start(); !started.ok()) return started;
  reclaimer->timers.Schedule(Clock::System()->Now() + kReclaimDelay, std::move(reclaim));
  return absl::OkStatus();
}

absl::Status CacheCore::OpenTier() {
  if (options_.tier == nullptr) return absl::OkStatus();
  absl::Status opened = Guarded<absl::Status>("the tier", [&] { return options_.tier->join_(*this); });
  if (!opened.ok()) tier_.reset();
  return opened;
}

absl::Status CacheCore::AwaitInvalidations(absl::Duration timeout) {
  CheckFork();
  CallGate::Call inside(*gate_, 0);
  if (!inside.inside()) return CancelledError();
  if (tier_ == nullptr) return absl::OkStatus();
  return Guarded<absl::Status>("the tier", [&] { return tier_->AwaitInvalidations(timeout); });
}

// Whether the entry is not older than the tier promises.
bool CacheCore::MayServe(const Slot& entry, Instant now) const {
  return tier_ == nullptr || entry.stamp().version == 0 || tier_->Trusts(now);
}

// Leaves it to `after` to give the flight's lease back, if it has one.
void CacheCore::GiveBackLease(const FlightPtr& flight, AfterUnlock& after) {
  if (!flight->lease.token.empty()) tier_->GiveBackLease(flight, after);
}

// Whether the result of a flight that runs is not older than the tier promises.
bool CacheCore::MayJoin(const Flight& flight, Instant now) const {
  return tier_ == nullptr || flight.phase != Flight::Phase::kRunning || tier_->Trusts(now) ||
         now < flight.times.begun + tier_->cache->max_staleness();
}

}  // namespace stockade::cache_internal
