#include "stockade/cache/internal/cache_base.h"

#include <utility>

#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade::cache_internal {
namespace {

constexpr size_t kRefreshThreads = 2;

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

CacheBase::CacheBase(LoadingCacheOptions&& options, Has has)
    : options_(std::move(options)),
      has_(has),
      loader_label_(Concat("the loader of ", Named(""))),
      keys_label_(Named(": a key, its Hash or its Eq")),
      timers_(std::in_place, options_.clock),
      refresh_pool_(kRefreshThreads),
      max_weight_(options_.max_weight),
      metrics_(options_.metrics, CacheMetricDefs(), {{"cache", options_.name}}) {
  metrics_.AddGauge(kFlights, Reader(flights_));
  metrics_.AddGauge(kWaiters, Reader(waiters_));
  metrics_.AddGauge(kEntries, Reader(entries_));
  metrics_.AddGauge(kWeight, Reader(weight_));
  metrics_.AddGauge(kMaxWeight, Reader(max_weight_));
}

CacheBase::~CacheBase() = default;

std::string CacheBase::Named(std::string_view rest) const { return Concat("LoadingCache '", options_.name, "'", rest); }

absl::Status CacheBase::CancelledError() const noexcept {
  return StatusWithText(absl::StatusCode::kCancelled, [&] { return Named(" is being destroyed"); });
}

absl::Status CacheBase::NoMemoryError() const noexcept {
  return StatusWithText(absl::StatusCode::kResourceExhausted, [&] { return Named(": there is no memory"); });
}

absl::Status CacheBase::DeadlineError() const noexcept {
  return StatusWithText(absl::StatusCode::kDeadlineExceeded,
                        [&] { return Named(": the time-out passed before a load ended"); });
}

absl::Status CacheBase::StoppedError() const noexcept {
  return StatusWithText(absl::StatusCode::kCancelled, [&] { return Named(": the caller requested a stop"); });
}

absl::Status CacheBase::HardTimeoutError() const noexcept {
  return StatusWithText(absl::StatusCode::kDeadlineExceeded, [&] {
    return Named(Concat(": a load took longer than ", absl::FormatDuration(options_.load_hard_timeout)));
  });
}

void CacheBase::NoCallbackFatal() const { Fatal(Named(": GetAsync() was called without a callback")); }

absl::Status CacheBase::ThrownError() const noexcept {
  return Guarded<absl::Status>(keys_label_, []() -> absl::Status { throw; });
}

void CacheBase::LogThrown(std::string_view consequence) const noexcept {
  LogParts(LogSeverity::kError, ThrownError().message(), "; ", consequence);
}

void CacheBase::LogThrownBy(std::string_view what) noexcept {
  const auto thrown = GuardCallback<absl::Status>(what, []() -> absl::Status { throw; });
  LogParts(LogSeverity::kError, thrown.message());
}

Executor* CacheBase::RefreshExecutor() {
  return options_.refresh_executor != nullptr ? options_.refresh_executor : &refresh_pool_;
}

absl::Status CacheBase::StartRefreshThreads() {
  return options_.refresh_executor != nullptr ? absl::OkStatus() : refresh_pool_.Start();
}

void CacheBase::DestroyedFromWithin(std::string_view callback) const {
  Fatal(Named(Concat(" destroyed by its own ", callback)));
}

}  // namespace stockade::cache_internal
