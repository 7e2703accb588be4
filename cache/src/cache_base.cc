#include "stockade/cache/internal/cache_base.h"

#include <utility>

#include "flight_graph.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/cache/load_context.h"

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

CacheBase::CacheBase(LoadingCacheOptions options)
    : options_(std::move(options)),
      loader_label_(Concat("the loader of LoadingCache '", options_.name, "'")),
      weigher_label_(Concat("the weigher of LoadingCache '", options_.name, "'")),
      listener_label_(Concat("the removal listener of LoadingCache '", options_.name, "'")),
      write_label_(Concat("the write of an update of LoadingCache '", options_.name, "'")),
      keys_label_(Concat("LoadingCache '", options_.name, "': a key, its Hash or its Eq")),
      freshness_(options_),
      sweep_interval_(options_.sweep_interval.value_or(options_.clock == Clock::System() ? kSystemSweepInterval
                                                                                         : absl::InfiniteDuration())),
      timers_(std::in_place, options_.clock),
      async_read_pool_(kAsyncReadThreads),
      refresh_pool_(kRefreshThreads),
      metrics_(options_.metrics, CacheMetricDefs(), {{"cache", options_.name}}) {
  metrics_.AddGauge(kFlights, Reader(flights_));
  metrics_.AddGauge(kWaiters, Reader(waiters_));
  metrics_.AddGauge(kEntries, Reader(entries_));
  metrics_.AddGauge(kWeight, Reader(weight_));
  metrics_.AddGauge(kMaxWeight, [bound = static_cast<double>(options_.max_weight)] { return bound; });
}

CacheBase::~CacheBase() = default;

int64_t CacheBase::size() const {
  CheckFork();
  return entries_.load(std::memory_order_relaxed);
}

int64_t CacheBase::weight() const {
  CheckFork();
  return weight_.load(std::memory_order_relaxed);
}

void CacheBase::AddEntries(int64_t count, int64_t weight) {
  // All shards share these lines, so they are only written if need be.
  if (count != 0) entries_.fetch_add(count, std::memory_order_relaxed);
  if (weight != 0) weight_.fetch_add(weight, std::memory_order_relaxed);
}

void CacheBase::CountLoad(const absl::Status& result, absl::Duration took, bool late) {
  Count(late                       ? kLoadTimeout
        : result.ok()              ? kLoadSuccess
        : absl::IsNotFound(result) ? kLoadNotFound
        : IsNotModified(result)    ? kLoadNotModified
                                   : kLoadError);
  Observe(kLoadSeconds, took);
}

void CacheBase::CountRefresh(RefreshTrigger trigger) {
  switch (trigger) {
    case RefreshTrigger::kAhead: return Count(kRefreshAhead);
    case RefreshTrigger::kXFetch: return Count(kRefreshXFetch);
    case RefreshTrigger::kStale: return Count(kRefreshStale);
    case RefreshTrigger::kManual: return Count(kRefreshManual);
  }
}

void CacheBase::CountRemoval(RemovalCause cause) {
  switch (cause) {
    case RemovalCause::kInvalidated: return Count(kEvictionInvalidated);
    case RemovalCause::kReplaced: return;
    case RemovalCause::kExpired: return Count(kEvictionExpired);
    case RemovalCause::kSize: return Count(kEvictionSize);
  }
}

absl::Status CacheBase::CancelledError() const {
  return absl::CancelledError(Concat("LoadingCache '", options_.name, "' is being destroyed"));
}

absl::Status CacheBase::DeadlineError() const {
  return absl::DeadlineExceededError(
      Concat("LoadingCache '", options_.name, "': the time-out passed before a load ended"));
}

absl::Status CacheBase::StoppedError() const {
  return absl::CancelledError(Concat("LoadingCache '", options_.name, "': the caller requested a stop"));
}

absl::Status CacheBase::HardTimeoutError() const {
  return absl::DeadlineExceededError(Concat("LoadingCache '", options_.name, "': a load took longer than ",
                                            absl::FormatDuration(options_.load_hard_timeout)));
}

absl::Status CacheBase::NoLoaderError() const {
  return absl::FailedPreconditionError(
      Concat("LoadingCache '", options_.name, "' has no loader; only GetOrLoad() and Put() fill it"));
}

absl::Status CacheBase::NothingToKeepError() const {
  return absl::InternalError(Concat(loader_label_, " returned NotModified() although there was no previous value"));
}

absl::Status CacheBase::BatchMissError() const {
  return absl::NotFoundError(Concat("LoadingCache '", options_.name, "': the batch loader found no value"));
}

absl::Status CacheBase::UpdateRefusedError() const {
  return absl::FailedPreconditionError(
      Concat("LoadingCache '", options_.name,
             "': UpdateThrough() was called within a loader, another update or a strict read"));
}

absl::Status CacheBase::WarmUpRefusedError() const {
  return absl::FailedPreconditionError(
      Concat("LoadingCache '", options_.name, "': WarmUp() was called within a loader, an update or a strict read"));
}

void CacheBase::NoCallbackFatal() const {
  Fatal(Concat("LoadingCache '", options_.name, "': GetAsync() was called without a callback"));
}

absl::Status CacheBase::CircleError(std::string_view circle) const {
  return absl::FailedPreconditionError(Concat(
      "LoadingCache '", options_.name, "': a loader requested a key whose load waits for the loader's own: ", circle));
}

absl::Status CacheBase::ThrownError() const {
  return GuardCallback<absl::Status>(keys_label_, []() -> absl::Status { throw; });
}

void CacheBase::LogThrown(std::string_view consequence) const {
  Log(LogSeverity::kError, Concat(ThrownError().message(), "; ", consequence));
}

void CacheBase::LogThrownBy(std::string_view what) {
  const auto thrown = GuardCallback<absl::Status>(what, []() -> absl::Status { throw; });
  Log(LogSeverity::kError, Concat(thrown.message()));
}

absl::Status CacheBase::RefusedError(bool load) const {
  return absl::ResourceExhaustedError(Concat("LoadingCache '", options_.name, "': the ",
                                             load ? "load_executor" : "refresh_executor", " dropped a load"));
}

void CacheBase::LogFailedRefresh(const absl::Status& thrown) {
  Log(LogSeverity::kError, Concat(thrown.message(), "; a refresh fails"));
}

Executor* CacheBase::RefreshExecutor() {
  return options_.refresh_executor != nullptr ? options_.refresh_executor : &refresh_pool_;
}

absl::Status CacheBase::StartRefreshThreads() {
  return options_.refresh_executor != nullptr ? absl::OkStatus() : refresh_pool_.Start();
}

void CacheBase::LogNoRefresh(const absl::Status& why) const {
  Log(LogSeverity::kWarning, Concat("LoadingCache '", options_.name, "': a refresh is skipped: ", why.message()));
}

void CacheBase::CheckNotInLoader() const {
  for (const LoaderFrame* frame = LoaderFrame::Innermost(); frame != nullptr; frame = frame->outer()) {
    if (frame->flight()->cache() == this) DestroyedFromWithin("loader");
  }
}

void CacheBase::DestroyedFromWithin(std::string_view callback) const {
  Fatal(Concat("LoadingCache '", options_.name, "' destroyed by its own ", callback));
}

absl::Status CacheBase::ScheduleReclaim(Executor::Task reclaim) {
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

void CacheBase::StopThreads() {
  timers_.reset();
  async_read_pool_.Finish();
  refresh_pool_.Finish();
}

}  // namespace stockade::cache_internal
