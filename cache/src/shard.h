#ifndef STOCKADE_CACHE_SRC_SHARD_H_
#define STOCKADE_CACHE_SRC_SHARD_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "entry_table.h"
#include "flight.h"
#include "stockade/base/instant.h"
#include "stockade/base/log.h"
#include "stockade/base/mutex.h"
#include "stockade/base/sync_point.h"
#include "stockade/cache/internal/cache_core.h"
#include "stockade/locks/internal/thread_record.h"
#include "stockade/locks/keyed_shared_mutex.h"

namespace stockade::cache_internal {

struct alignas(64) Shard {
  // A walk over the entries that looks for those past all their deadlines (entry_store.cc). Invariant: no entry is over
  // before `over_at`. Of the entries that the walk has passed and those stored since it began, none is over before
  // `passed_over_at`.
  struct Walk {
    Instant over_at = Instant::InfiniteFuture();
    Instant passed_over_at = Instant::InfiniteFuture();
    uint32_t next = 1;  // The number of a slot.
  };

  // Boxes that have left their slots and may still be read by a hit that found them before. Invariant: all were added
  // within the tick of the coarse clock in which others were freed last, except for those that were being read then.
  // They are fewer than kMostBoxes, with less than kMostBytes, and those of all shards have at most 1/kWeightPart of
  // max_weight.
  struct Retired {
    static constexpr size_t kMostBoxes = 64;
    static constexpr size_t kMostBytes = size_t{64} << 10;
    static constexpr int64_t kWeightPart = 100;

    void MoveTo(BoxList& to) {
      to.AddAll(std::move(boxes));
      bytes = 0;
      weight = 0;
    }

    BoxList boxes;
    size_t bytes = 0;
    int64_t weight = 0;
    Instant freed_at = Instant::InfinitePast();
  };

  // The updates of the keys of one hash, those that wait for their lock included.
  struct Updates {
    int under_way = 0;    // More than 0.
    Waiter::List parked;  // Strict calls of GetAsync() that wait for the end of one.
  };

  // The number of slots that a store checks when a sweep is due, and a sweep under one lock.
  static constexpr uint32_t kSweptByStore = 16;
  static constexpr uint32_t kSweptAtOnce = 256;

  Mutex mutex;                  // Locked by ShardLock, which is what clang follows.
  std::atomic<int> waiting{0};  // Threads that wait for the mutex; only a hint, for GiveWay().
  EntryTable entries STOCKADE_GUARDED_BY(kShardMutex);
  FlightTable flights STOCKADE_GUARDED_BY(kShardMutex);
  Walk walk STOCKADE_GUARDED_BY(kShardMutex);
  Retired retired STOCKADE_GUARDED_BY(kShardMutex);
  // Strict calls of GetAsync() for which a task is in the queue of async_read_pool_, or is about to be.
  Waiter::List ready STOCKADE_GUARDED_BY(kShardMutex);
  // If locks_reads(), by the key's hash.
  std::unordered_map<uint64_t, Updates> updates STOCKADE_GUARDED_BY(kShardMutex);
  int clearings STOCKADE_GUARDED_BY(kShardMutex) = 0;     // Invalidations of a tag or of all keys in progress.
  bool closed STOCKADE_GUARDED_BY(kShardMutex) = false;   // No flight begins any more.
  bool crowded STOCKADE_GUARDED_BY(kShardMutex) = false;  // It was logged that too many entries have one hash.
};

// Holds the mutex of a shard.
class STOCKADE_SCOPED_CAPABILITY ShardLock {
 public:
  explicit ShardLock(Shard& shard) STOCKADE_ACQUIRE(kShardMutex) : mutex_(shard.mutex) {
    SyncPoint();
    if (!mutex_.try_lock()) Await(shard);
  }
  // Holds the mutex already: after TryLock().
  ShardLock(Shard& shard, std::adopt_lock_t) STOCKADE_REQUIRES(kShardMutex) : mutex_(shard.mutex) {}
  ~ShardLock() STOCKADE_RELEASE() {
    if (held_) mutex_.unlock();
  }
  ShardLock(const ShardLock&) = delete;
  ShardLock& operator=(const ShardLock&) = delete;

  [[nodiscard]] static bool TryLock(Shard& shard)
      STOCKADE_TRY_ACQUIRE(true, kShardMutex) STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    return shard.mutex.try_lock();
  }

  void Unlock() STOCKADE_RELEASE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    held_ = false;
    mutex_.unlock();
  }
  void Lock() STOCKADE_ACQUIRE() STOCKADE_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.lock();
    held_ = true;
  }

 private:
  static void Await(Shard& shard) STOCKADE_NO_THREAD_SAFETY_ANALYSIS;

  Mutex& mutex_;
  bool held_ = true;
};

// Work that changes under a mutex leave for the time after it. It includes user code, so it must not run before this
// thread has published everything that other threads or that code may wait for. The function that creates one calls
// Run() when it has released the mutex; the destructor does what an exception has left. Leaving work here needs no
// memory, except for the calls of the listeners and the leases: see ReportLeaving(), NoteFailure() and GiveBackLease().
struct AfterUnlock {
  explicit AfterUnlock(EntryStore& s) : store(s) {}
  ~AfterUnlock() STOCKADE_EXCLUDES(kShardMutex);
  AfterUnlock(const AfterUnlock&) = delete;
  AfterUnlock& operator=(const AfterUnlock&) = delete;

  bool idle() const {
    return removed.empty() && boxes.empty() && dropped.empty() && for_load.empty() && for_refresh.empty() &&
           answered.empty() && failed.empty() && !needs_sweep && !may_exceed && !retired && released.empty() &&
           unreported == 0 && !crowded;
  }

  void Run() STOCKADE_EXCLUDES(kShardMutex) {
    if (!idle()) store.Settle(*this);
  }

  EntryStore& store;
  const int uncaught = std::uncaught_exceptions();
  std::list<Removal> removed;                              // For the listener.
  size_t unreported = 0;                                   // Removals for which there was no memory.
  BoxList boxes;                                           // To be freed.
  FlightList<&Flight::next_dropped> dropped;               // Their last owner may have to run a destructor.
  FlightList<&Flight::next_for_load> for_load;             // To be passed to load_executor.
  FlightList<&Flight::next_for_refresh> for_refresh;       // To be passed to refresh_executor.
  Waiter::List answered;                                   // Their flights are answered.
  std::vector<std::pair<FlightPtr, absl::Status>> failed;  // For on_load_error.
  std::vector<std::pair<FlightPtr, TierLease>> released;   // To be given back to the tier.
  bool needs_sweep = false;                                // A stored entry expires.
  bool may_exceed = false;                                 // A stored entry may exceed max_weight.
  bool retired = false;                                    // Boxes wait to be freed.
  bool crowded = false;                                    // It is to be logged that too many entries have one hash.
};

// Called between the steps of a long work, which would otherwise take the mutex again before a thread that waits for it
// has woken. Bounded, so that the work ends however many threads come.
inline void EntryStore::GiveWay(const Shard& shard) {
  constexpr int kYields = 100;
  for (int i = 0; i < kYields && shard.waiting.load(std::memory_order_relaxed) > 0; ++i) std::this_thread::yield();
}
inline Slot* EntryStore::FindEntry(const KeyAt& at) {
  return shards_[at.shard].entries.Find(
      at.hash, [&](const Slot& slot) STOCKADE_REQUIRES(kShardMutex) { return IsFor(slot, at.key); });
}
inline bool EntryStore::TryFindEntry(const KeyAt& at, Slot*& entry) noexcept {
  try {
    entry = FindEntry(at);
    return true;
  } catch (...) {
    LogThrown("an entry is not found");
    return false;
  }
}
inline Slot* EntryStore::FindValue(const KeyAt& at) noexcept {
  Slot* entry = nullptr;
  return TryFindEntry(at, entry) && entry != nullptr && entry->has_value() ? entry : nullptr;
}
inline FlightPtr SingleFlight::Current(const KeyAt& at) const {
  return shards_[at.shard].flights.Current(at.hash, at.key);
}

// One distinct key of a call for many keys.
struct CacheCore::Part {
  const KeyAt at;
  CacheCall call;
  std::optional<Answer> answer;
};

// The caller that a loader runs for: the call whose thread runs it, or none.
struct Runner {
  Instant deadline = Instant::InfiniteFuture();
  std::stop_token stop = {};

  bool GaveUp(Instant now) const { return now >= deadline || stop.stop_requested(); }
};

// The result of a loader for one key.
struct Loaded {
  Answer answer = absl::UnknownError("");
  EntryOptions entry = {};
  absl::Duration took = absl::ZeroDuration();
  Instant ended = Instant::InfinitePast();
  Pinned previous = nullptr;  // The value that the loader could renew.
  bool renews = false;        // The answer is that value.

  // With a tier. A value that the tier does not have is kept until other processes may have a newer one.
  std::optional<EntryTimes> times = std::nullopt;  // Null: to be computed from `entry`.
  TierStamp stamp = {};
  Instant kept_until = Instant::InfiniteFuture();
  bool refused = false;   // The tier has refused the value, which may be outdated.
  bool unstored = false;  // The tier does not take it. The flight records later invalidations that concern it.
};

// A task of an executor that runs flights of its queue, as one batch or one by one. It may run after the cache is gone
// or after another thread has run the flights. A task that is destroyed without having run was dropped by its executor,
// and its flights are answered with an error. A task for one flight needs no memory.
class QueuedLoad {
 public:
  QueuedLoad(SingleFlight& core, LoadQueue queue, Flights flights, bool as_batch)
      : core_(core), gate_(core.gate_), queue_(queue), as_batch_(as_batch), flights_(std::move(flights)) {}
  ~QueuedLoad() {
    if (flights_.empty()) return;
    CallGate::Call inside(*gate_, flights_.front()->key.shard);
    if (inside.inside()) core_.Dropped(queue_, std::move(flights_));
  }
  QueuedLoad(QueuedLoad&& other) noexcept
      : core_(other.core_),
        gate_(other.gate_),
        queue_(other.queue_),
        as_batch_(other.as_batch_),
        flights_(std::exchange(other.flights_, {})) {}
  QueuedLoad& operator=(QueuedLoad&&) = delete;

  void operator()() {
    if (flights_.empty()) base_internal::Fatal("an executor has run a load of a LoadingCache twice");
    Flights flights = std::exchange(flights_, {});  // They outlive the call: their loaders may own the cache.
    CallGate::Call inside(*gate_, flights.front()->key.shard);
    if (!inside.inside()) return;
    const std::span<const FlightPtr> begun = core_.BeginAll(flights, queue_);
    if (!begun.empty()) core_.Run(begun, as_batch_, Runner());
  }

 private:
  SingleFlight& core_;
  const std::shared_ptr<CallGate> gate_;
  const LoadQueue queue_;
  const bool as_batch_;
  Flights flights_;  // Empty once it has run.
};

// Logs the concatenation of `parts`. Without memory for that, the log counts it as a message that was left out.
template <typename... Parts>
void LogParts(LogSeverity severity, const Parts&... parts) noexcept {
  try {
    base_internal::Log(severity, Concat(parts...));
  } catch (const std::bad_alloc&) {
    base_internal::Log(severity, "LoadingCache: there is no memory for a message");
  }
}

// By hash, because the release of a lock must not run a Hash or Eq, which may throw. Keys with the same hash share a
// lock. Without memory, a call throws std::bad_alloc if ThreadRecord::Reserve(1) was called before; otherwise it could
// end the process.
class KeyLocks : public KeyedSharedMutex<uint64_t> {};

// What the table says about a key.
struct CacheCore::Served {
  std::optional<Answer> answer = std::nullopt;  // Nothing: a load is needed.
  CacheMetric result = kRequestMiss;            // That the lookup counts as.
  Instant expires_at = Instant::InfinitePast();
  std::optional<RefreshTrigger> due = std::nullopt;  // The refresh that it starts.
};

// A read lock of strict mode, or none.
struct CacheCore::ReadHold {
  std::optional<KeyLocks::Guard> guard;
  std::optional<StrictReadFrame> frame;
};

class CacheCore::LockGuards : public std::vector<KeyLocks::Guard> {};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_SHARD_H_
