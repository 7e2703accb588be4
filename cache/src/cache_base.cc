#include "stockade/cache/internal/cache_base.h"

#include <utility>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "stockade/cache/internal/flight_graph.h"

namespace stockade::internal {
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

CacheBase::CacheBase(LoadingCacheOptions options)
    : options_(std::move(options)),
      loader_label_(Concat("the loader of LoadingCache '", options_.name, "'")),
      weigher_label_(Concat("the weigher of LoadingCache '", options_.name, "'")),
      freshness_(options_),
      metrics_(options_.metrics, CacheMetricDefs(), {{"cache", options_.name}}) {
  metrics_.AddGauge(kFlights, Reader(flights_));
  metrics_.AddGauge(kWaiters, Reader(waiters_));
  metrics_.AddGauge(kEntries, Reader(entries_));
  metrics_.AddGauge(kWeight, Reader(weight_));
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
  entries_.fetch_add(count, std::memory_order_relaxed);
  weight_.fetch_add(weight, std::memory_order_relaxed);
}

void CacheBase::CountLoad(absl::StatusCode result) {
  Count(result == absl::StatusCode::kOk         ? kLoadSuccess
        : result == absl::StatusCode::kNotFound ? kLoadNotFound
                                                : kLoadError);
}

absl::Status CacheBase::CancelledError() const {
  return absl::CancelledError(Concat("LoadingCache '", options_.name, "' is being destroyed"));
}

absl::Status CacheBase::DeadlineError() const {
  return absl::DeadlineExceededError(
      Concat("LoadingCache '", options_.name, "': the time-out passed before a load ended"));
}

absl::Status CacheBase::CircleError() const {
  return absl::FailedPreconditionError(
      Concat("LoadingCache '", options_.name, "': a loader asked for a key whose load waits for the loader's own"));
}

Executor* CacheBase::RefreshExecutor() {
  if (options_.refresh_executor != nullptr) return options_.refresh_executor;
  std::call_once(refresh_pool_started_, [this] { refresh_pool_ = std::make_unique<ThreadPool>(kRefreshThreads); });
  return refresh_pool_.get();
}

void CacheBase::CheckNotInLoader() const {
  for (const LoaderFrame* frame = LoaderFrame::Innermost(); frame != nullptr; frame = frame->outer()) {
    if (frame->flight()->cache() == this)
      Fatal(Concat("LoadingCache '", options_.name, "' destroyed by its own loader"));
  }
}

}  // namespace stockade::internal
