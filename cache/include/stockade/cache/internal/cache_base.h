#ifndef STOCKADE_CACHE_INTERNAL_CACHE_BASE_H_
#define STOCKADE_CACHE_INTERNAL_CACHE_BASE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/executor.h"
#include "stockade/base/export.h"
#include "stockade/base/fork_guard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/base/lazy_thread_pool.h"
#include "stockade/base/timer_queue.h"
#include "stockade/cache/internal/cache_metrics.h"
#include "stockade/cache/internal/call_gate.h"
#include "stockade/cache/internal/erased.h"
#include "stockade/cache/load_context.h"
#include "stockade/cache/loading_cache_options.h"
#include "stockade/metrics/metric_set.h"

namespace stockade::cache_internal {

STOCKADE_EXPORT absl::Status EmptyLoaderError(std::string_view name);
// InvalidArgument: it is out of range.
absl::Status CheckMaxWeight(std::string_view name, int64_t max_weight);
[[noreturn]] STOCKADE_EXPORT void FatalStatus(const absl::Status& status);

// The parts that all others use: the options, the types and functions of the user, errors and logs, counts, threads.
//
// A LoadingCache is a CacheCore, which is a SingleFlight, which is an EntryStore, which is this. Each class has one
// task. It calls those that it is built on, and those above it by virtual functions only.
class STOCKADE_EXPORT CacheBase {
 public:
  // The functions of the user that there are, and a property of the types.
  struct Has {
    bool load;
    bool load_all;
    bool weigh;
    bool on_removal;
    bool on_load_error;
    bool boxes;      // An entry has a box for its key, its value, or both: see SlotOf.
    bool key_boxes;  // For its key only.
  };

  CacheBase(LoadingCacheOptions&& options, Has has);
  virtual ~CacheBase();
  CacheBase(const CacheBase&) = delete;
  CacheBase& operator=(const CacheBase&) = delete;

  bool InForkedChild() const { return fork_guard_.InForkedChild(); }

 protected:
  friend class TierSide;

  void CheckFork() const { fork_guard_.Check("LoadingCache", options_.name); }
  int64_t max_weight() const { return max_weight_.load(std::memory_order_relaxed); }
  Instant Now() const { return options_.clock->Now(); }
  void Count(CacheMetric metric) { metrics_.Add(metric); }
  // Counts kRequestHit if one load and one store are enough. Otherwise returns false and counts nothing.
  bool TryCountHit() { return cells_ == nullptr || cells_->TryAdd(ThisThreadSlotIfAny(), hit_cell_, 1); }

  absl::Status CancelledError() const noexcept;
  absl::Status NoMemoryError() const noexcept;
  [[noreturn]] void NoCallbackFatal() const;
  // Called in a catch clause: reports an exception as a status, or logs it with its consequence. It is kInternal if
  // user code threw it, and ResourceExhausted if it is std::bad_alloc.
  absl::Status ThrownError() const noexcept;
  void LogThrown(std::string_view consequence) const noexcept;
  // Runs a piece of work of the library, in which user code that `what` names may throw.
  template <typename Result, typename Work>
  Result Guarded(std::string_view what, const Work& work) const noexcept {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return NoMemoryError();
    } catch (...) {
      return base_internal::GuardCallback<Result>(what, []() -> Result { throw; });
    }
  }

  // A message that begins with the cache's name.
  std::string Named(std::string_view rest) const;
  absl::Status StoppedError() const noexcept;
  absl::Status DeadlineError() const noexcept;
  absl::Status HardTimeoutError() const noexcept;
  static void LogThrownBy(std::string_view what) noexcept;
  void Observe(CacheMetric metric, absl::Duration span) { metrics_.Observe(metric, span); }
  Executor* RefreshExecutor();
  absl::Status StartRefreshThreads();
  [[noreturn]] void DestroyedFromWithin(std::string_view callback) const;
  bool HasLoader() const { return has_.load || has_.load_all; }
  // Strict caches are of two kinds. In one process, reads hold the lock of their key. Over a fleet, with a tier, they
  // do not, and updates wait until no process has an older value (strict_update.cc).
  bool locks_reads() const { return options_.strict && options_.tier == nullptr; }
  bool strict_in_fleet() const { return options_.strict && options_.tier != nullptr; }

  // The operations that depend on the types of the cache. They may throw, except for the loads.
  virtual std::unique_ptr<const KeyHolder> KeepKey(const void* key) const = 0;
  virtual std::string TextOf(const void* key) const = 0;
  virtual int64_t Weigh(const void* key, const void* value) const STOCKADE_EXCLUDES(kShardMutex) = 0;
  virtual void TellRemoval(const Removal& removal) const STOCKADE_EXCLUDES(kShardMutex) = 0;
  virtual void TellLoadError(const void* key, const absl::Status& error) const STOCKADE_EXCLUDES(kShardMutex) = 0;
  // The box of an entry with this key and this value, which may be null. Null if its slot needs none.
  // `renews`: the value may have been stored before.
  virtual Pinned BoxFor(const void* key, const Pinned& value, bool renews) const = 0;
  // A box for a value that is kept in slots.
  virtual Pinned Boxed(const void* value) const = 0;
  // For slots that are not free.
  virtual bool IsFor(const Slot& slot, const void* key) const STOCKADE_REQUIRES(kShardMutex) = 0;
  virtual Pinned ValueOf(const Slot& slot) const STOCKADE_REQUIRES(kShardMutex) = 0;
  virtual Removal RemovalOf(const Slot& slot, RemovalCause cause) const STOCKADE_REQUIRES(kShardMutex) = 0;
  // As SlotOf::Write(): `key` is null if the slot has it. If neither is given, there is no entry any more.
  virtual const Box* Write(Slot& slot, const void* key, NewEntry* entry) const STOCKADE_REQUIRES(kShardMutex) = 0;
  // Runs the loader, or the cache's own if it is null. Sets `threw` if it threw.
  virtual LoadResult Load(const LoadRequest& request, const LoaderPtr& loader, Instant deadline,
                          const std::stop_token& stop, bool& threw) STOCKADE_EXCLUDES(kShardMutex) = 0;
  // The codec of a cache with a tier; its id is nothing or empty if the codec is incomplete: see IdOf(). Functions of
  // the user, so they may throw.
  virtual std::optional<std::string_view> CodecId() const = 0;
  virtual absl::Status EncodeKey(const void* key, std::string* bytes) const = 0;
  virtual absl::Status EncodeValue(const Pinned& value, std::string* bytes) const = 0;
  virtual absl::StatusOr<Pinned> DecodeValue(const void* key, std::string_view bytes) const = 0;
  virtual absl::Status WithKey(std::string_view bytes, absl::FunctionRef<void(const KeyAt&)> function) const = 0;
  // Runs the batch loader. `results` gets the result of each request, or stays empty. Sets `threw` if it threw.
  virtual absl::Status LoadAll(std::span<const LoadRequest> requests, Instant deadline, const std::stop_token& stop,
                               std::vector<LoadResult>& results, bool& threw) STOCKADE_EXCLUDES(kShardMutex) = 0;

  const LoadingCacheOptions options_;
  const Has has_;
  const std::string loader_label_;  // For errors about its exceptions.
  const std::string keys_label_;
  const std::shared_ptr<CallGate> gate_ = std::make_shared<CallGate>();
  Asked previous_asked_;
  std::optional<TimerQueue> timers_;  // For calls without a thread, and sweeps. Empty: stopped.
  LazyThreadPool refresh_pool_;
  ForkGuard fork_guard_;
  std::atomic<int64_t> flights_{0};
  std::atomic<int64_t> waiters_{0};
  std::atomic<int64_t> entries_{0};
  std::atomic<int64_t> weight_{0};
  // LoadingCacheOptions::max_weight, until SetMaxWeight() changes it. A bound for later stores, so relaxed.
  std::atomic<int64_t> max_weight_;
  // Last: its gauges read the counts above.
  ComponentMetrics metrics_;
  StripedCells* const cells_ = metrics_.enabled() ? &metrics_.set()->cells() : nullptr;
  const size_t hit_cell_ = metrics_.enabled() ? metrics_.set()->cell_of(kRequestHit) : 0;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_CACHE_BASE_H_
