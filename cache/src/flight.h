#ifndef STOCKADE_CACHE_SRC_FLIGHT_H_
#define STOCKADE_CACHE_SRC_FLIGHT_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "load_graph.h"
#include "stockade/base/clock.h"
#include "stockade/base/executor.h"
#include "stockade/base/instant.h"
#include "stockade/base/mutex.h"
#include "stockade/base/parker.h"
#include "stockade/base/strings.h"
#include "stockade/base/timer_queue.h"
#include "stockade/cache/cache_tier.h"
#include "stockade/cache/internal/cache_metrics.h"
#include "stockade/cache/internal/erased.h"
#include "stockade/cache/internal/pinned.h"

namespace stockade::cache_internal {

class SingleFlight;
struct Flight;
using FlightPtr = std::shared_ptr<Flight>;

// One needs no memory.
class Flights : public absl::InlinedVector<FlightPtr, 1> {
 public:
  using InlinedVector::InlinedVector;

  template <typename Predicate>
  void EraseIf(const Predicate& is_erased) {
    erase(std::remove_if(begin(), end(), is_erased), end());
  }
};

// The queues of executors that a flight may be in: none, one or both.
enum class LoadQueue : uint8_t { kNone = 0, kLoad = 1, kRefresh = 2 };

// A thread or a callback that waits.
//
// Invariant: it is in one list, or it has left, or its flight is answered and a thread that answers it calls Wake().
class Waiter {
 public:
  using List = std::list<std::shared_ptr<Waiter>>;

  enum class Kind {
    kThread,
    kNestedThread,  // It runs a loader, so it must not wait for an executor.
    kCallback,
  };
  Waiter(Instant until, Kind kind)
      : deadline(until), nested(kind == Kind::kNestedThread), is_callback(kind == Kind::kCallback) {}
  virtual ~Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Makes a thread check its flight, which is `answered`. Has no effect on a callback.
  virtual void Wake(bool answered) = 0;

  bool waits() const STOCKADE_REQUIRES(kShardMutex) { return list_ != nullptr; }
  void Enter(List& list, std::shared_ptr<Waiter> self) STOCKADE_REQUIRES(kShardMutex) {
    place_ = list.insert(list.end(), std::move(self));
    list_ = &list;
  }
  void Leave() STOCKADE_REQUIRES(kShardMutex) { std::exchange(list_, nullptr)->erase(place_); }
  // Moves all waiters of a list to another one, which they leave by themselves if it is `theirs`.
  static void MoveAll(List& from, List& to, bool theirs) STOCKADE_REQUIRES(kShardMutex) {
    for (const auto& waiter : from) waiter->list_ = theirs ? &to : nullptr;
    to.splice(to.end(), from);
  }

  const Instant deadline;
  const bool nested;
  const bool is_callback;
  // Is in ThreadWaiter::Wait(), or was woken from it and has not checked the flight yet.
  bool parked STOCKADE_GUARDED_BY(kShardMutex) = false;

 private:
  List* list_ STOCKADE_GUARDED_BY(kShardMutex) = nullptr;  // Null: in none, or in one that it does not leave by itself.
  List::iterator place_ STOCKADE_GUARDED_BY(kShardMutex);
};

// Each has its own parker, so that thousands of threads that are answered at once do not contend for a mutex.
class ThreadWaiter final : public Waiter {
 public:
  ThreadWaiter(Clock& clock, Instant until, bool in_loader)
      : Waiter(until, in_loader ? Kind::kNestedThread : Kind::kThread), parker_(clock) {}

  // Sleeps until it is woken or the clock passes `until`; wake-ups may be spurious. Returns true if the flight has its
  // answer, which the caller may read without a lock. After false the caller must check the flight again.
  bool Wait(Instant until) STOCKADE_EXCLUDES(kShardMutex) {
    parker_.Park(until);
    return answered_.load(std::memory_order_acquire);
  }

  // Not lost if Wait() comes later. The caller must hold a pointer to this object, because the waiter may leave at
  // once.
  void Wake(bool answered) override {
    if (answered) answered_.store(true, std::memory_order_release);
    parker_.Unpark();
  }

 private:
  Parker parker_;
  std::atomic<bool> answered_{false};
};

// One lookup of one key, from its start to its answer. Used by the thread that makes it.
struct CacheCall {
  const Instant begun;
  const Instant deadline;
  const std::stop_token stop;
  LoaderPtr loader = nullptr;  // The call's own loader, once it is needed.
  CacheMetric result = kRequestMiss;
  bool waited = false;
  Instant expires_at = Instant::InfinitePast();  // Of the answer, where the cache has stored it.

  FlightPtr flight = nullptr;                         // The one that it has joined.
  uint64_t joined = 0;                                // The flight's `tag_invalidations` at that time.
  Instant soft_deadline = Instant::InfiniteFuture();  // After this an expired value is accepted, if there still is one.
  std::shared_ptr<ThreadWaiter> waiter = nullptr;     // Null for a callback.
  LoadQueue queue = LoadQueue::kNone;                 // From which the flight is run. None: by the calling thread.
  bool must_run_here = false;                         // The calling thread must not wait for an executor.
  bool has_begun = false;                             // The calling thread is about to run the flight.
};

// A callback and its answer.
struct AsyncReply {
  AsyncReply(Executor& e, AnswerCallback d) : executor(e), done(std::move(d)) {}

  // Only the first call has an effect, because an executor may run a task and throw nevertheless.
  void Call() {
    if (called.exchange(true, std::memory_order_acq_rel)) return;
    AnswerCallback run = std::move(done);
    run(std::move(answer));
  }

  Executor& executor;
  AnswerCallback done;
  Answer answer = absl::UnknownError("");  // Set before the executor gets the callback.
  std::atomic<bool> called{false};
};

// A lookup that is answered by a callback. It waits for a flight or, without one, for its key's lock (async.cc). When
// it waits for neither, exactly one thread owns it, which answers it or makes it wait again.
struct AsyncCall final : AsyncReply, Waiter {
  AsyncCall(KeptKey k, Executor& e, AnswerCallback d, CacheCall c)
      : AsyncReply(e, std::move(d)), Waiter(c.deadline, Kind::kCallback), key(std::move(k)), call(std::move(c)) {}

  void Wake(bool) override {}

  const KeptKey key;
  CacheCall call;
  bool outlasted_update STOCKADE_GUARDED_BY(kShardMutex) = false;  // Has waited for the end of an update of its key.
  // These check it while it waits. They change with the mutex held, and then by the one thread that has ended the wait.
  std::optional<TimerQueue::Id> timer;
  std::optional<std::stop_callback<std::function<void()>>> on_stop;
};
using AsyncPtr = std::shared_ptr<AsyncCall>;

// The part of a flight that only a cache with a tier needs.
struct TierState {
  // That of a flight that has not begun is kept for its next run.
  TierLease lease STOCKADE_GUARDED_BY(kShardMutex);
  // kReady: another process loads the key. Ask again then.
  Instant not_before STOCKADE_GUARDED_BY(kShardMutex) = Instant::InfinitePast();
  // kRunning: the other load has ended since the run began.
  bool lease_ended STOCKADE_GUARDED_BY(kShardMutex) = false;
  // The time for which QueueUpLater() has scheduled a timer.
  Instant queued_up_at STOCKADE_GUARDED_BY(kShardMutex) = Instant::InfinitePast();
  // In background: the tier shall confirm the entry, whose trust had ended. Not a refresh.
  bool checks STOCKADE_GUARDED_BY(kShardMutex) = false;
  // kRunning: the loader runs without a lease, so an invalidation by another process does not void its result.
  bool unleased STOCKADE_GUARDED_BY(kShardMutex) = false;
  // Used by the thread that runs the loader, or before it begins.
  std::optional<std::string> key;  // Encoded. Set before the first lease, and constant from then on.
  bool loads_alone = false;        // The tier was away: the next run does not ask again.
  uint64_t known_version = 0;      // Of the entry that it refreshes.
};

// One load of one key.
//
// Invariants: the thread that changes the phase from kReady to kRunning runs the loader. The phase changes back only if
// that thread's caller gave up and others wait. `result` is final when the flight is answered(). That may be before the
// loader has ended (a Put, a time-out, the destruction of the cache), and is the case at the latest then. A call that
// has joined stays in `waiters` until it has its answer or leaves. What no mutex guards is constant or belongs to the
// thread that runs the loader.
struct Flight final : FlightNode {
  enum class Phase {
    kBlocked,  // Two older loads of the key still run.
    kReady,    // A waiting call or a thread of an executor may run it.
    kRunning,
    kAnswered,  // Still runs.
    kFinished,  // Has run and is answered, or will never run.
  };

  Flight(const SingleFlight* cache, const std::string& n, KeptKey k, LoaderPtr l, bool background, bool has_tier)
      : FlightNode(cache),
        cache_name(n),
        key(std::move(k)),
        loader(std::move(l)),
        in_background(background),
        tier(has_tier ? std::make_unique<TierState>() : nullptr) {}

  bool IsFor(const void* other) const override { return key.holder->Is(other); }

  std::string Text() const override { return Concat("'", cache_name, "' key ", key.holder->Text()); }

  bool started() const STOCKADE_REQUIRES(kShardMutex) { return phase >= Phase::kRunning; }
  bool running() const STOCKADE_REQUIRES(kShardMutex) { return started() && phase != Phase::kFinished; }
  // Also true if no call waits for it any more, and never will.
  bool answered() const STOCKADE_REQUIRES(kShardMutex) { return phase >= Phase::kAnswered; }
  // Whether a thread may begin it. Otherwise not before NotBefore(), if at all.
  bool IsReady(Instant now) const STOCKADE_REQUIRES(kShardMutex) {
    return phase == Phase::kReady && now >= NotBefore();
  }
  Instant NotBefore() const STOCKADE_REQUIRES(kShardMutex) {
    return tier != nullptr ? tier->not_before : Instant::InfinitePast();
  }
  // Of its lease, which it may have used up.
  uint64_t LeasePosition() const STOCKADE_REQUIRES(kShardMutex) { return tier != nullptr ? tier->lease.position : 0; }
  bool queued() const STOCKADE_REQUIRES(kShardMutex) { return queues != 0; }
  bool In(LoadQueue queue) const STOCKADE_REQUIRES(kShardMutex) { return (queues & static_cast<uint8_t>(queue)) != 0; }
  void Enter(LoadQueue queue) STOCKADE_REQUIRES(kShardMutex) { queues |= static_cast<uint8_t>(queue); }
  void Leave(LoadQueue queue) STOCKADE_REQUIRES(kShardMutex) {
    queues &= static_cast<uint8_t>(~static_cast<uint8_t>(queue));
  }
  // Whether it runs even if no thread waits for it. O(waiters).
  bool NeedsExecutor() const STOCKADE_REQUIRES(kShardMutex) {
    return in_background || std::any_of(waiters.begin(), waiters.end(), [](const auto& w) { return w->is_callback; });
  }

  // Called once. The loader may go on.
  void SetAnswer(Answer answer) STOCKADE_REQUIRES(kShardMutex) {
    if (phase == Phase::kBlocked) Unblock();
    phase = phase == Phase::kRunning ? Phase::kAnswered : Phase::kFinished;
    result.answer = std::move(answer);
  }

  // From here on the loader sees current data. `was` and `was_tags` are the value and the tags that the key has.
  void Begin(Instant now, Instant hard, Pinned was, std::vector<std::string> was_tags) STOCKADE_REQUIRES(kShardMutex) {
    phase = Phase::kRunning;
    times.begun = now;
    times.hard_deadline = hard;
    previous = std::move(was);
    previous_tags = std::move(was_tags);
    invalidated_tags.clear();
    chosen_runner = nullptr;
    relayed = false;
    if (tier == nullptr) return;
    if (tier->lease.token.empty()) tier->lease.position = 0;
    tier->lease_ended = false;
    tier->unleased = false;
  }

  // Records that a tag was invalidated while the loader ran.
  void NoteInvalidation(std::string_view tag) STOCKADE_REQUIRES(kShardMutex) {
    invalidated_tags.try_emplace(std::string(tag), ++tag_invalidations);
  }
  // For a result with `tags`: the first invalidation of one of them. The result is valid only for calls that joined
  // before it.
  uint64_t FirstInvalidation(const std::vector<std::string>& tags) const STOCKADE_REQUIRES(kShardMutex) {
    uint64_t first = kNeverInvalidated;
    for (const std::string& tag : tags) {
      if (const auto found = invalidated_tags.find(tag); found != invalidated_tags.end())
        first = std::min(first, found->second);
    }
    return first;
  }

  static constexpr uint64_t kNeverInvalidated = std::numeric_limits<uint64_t>::max();

  // In the FlightLists of an AfterUnlock. A flight is dropped once, and is once at a time in each queue.
  FlightPtr next_dropped;
  FlightPtr next_for_load;
  FlightPtr next_for_refresh;

  const std::string& cache_name;
  const KeptKey key;
  const LoaderPtr loader;    // The loader of the call that started it; null for the cache's.
  const bool in_background;  // Runs even if no call waits for it.

  Phase phase STOCKADE_GUARDED_BY(kShardMutex) = Phase::kReady;
  uint8_t queues STOCKADE_GUARDED_BY(kShardMutex) = 0;  // Of LoadQueue.
  // The waiter that was woken to run it, and whether only that waiter may, because the last runner gave up.
  const Waiter* chosen_runner STOCKADE_GUARDED_BY(kShardMutex) = nullptr;
  bool relayed STOCKADE_GUARDED_BY(kShardMutex) = false;
  Waiter::List waiters STOCKADE_GUARDED_BY(kShardMutex);
  // The number of invalidations of tags so far.
  uint64_t tag_invalidations STOCKADE_GUARDED_BY(kShardMutex) = 0;
  // For each tag its first invalidation in this run, as a value of `tag_invalidations`.
  std::map<std::string, uint64_t> invalidated_tags STOCKADE_GUARDED_BY(kShardMutex);

  // While a thread runs the loader, no other one changes these.
  struct Times {
    Instant begun = Instant::InfinitePast();  // The last run.
    // Counted from the creation, then from the queueing, then from the start, or from `busy_since`: while calls wait,
    // it only moves later.
    Instant hard_deadline = Instant::InfiniteFuture();
    // When the tier first said that another process loads the key.
    Instant busy_since = Instant::InfiniteFuture();

    bool IsBusy() const { return busy_since != Instant::InfiniteFuture(); }
  };
  Times times STOCKADE_GUARDED_BY(kShardMutex);
  // For that thread, which need not hold the mutex.
  const Times& RunnersTimes() const STOCKADE_NO_THREAD_SAFETY_ANALYSIS { return times; }

  // Used by the thread that runs the loader.
  Pinned previous;  // The value of the key when the run began.
  std::vector<std::string> previous_tags;

  const std::unique_ptr<TierState> tier;  // Null: the cache has none.

  struct Result {
    Answer answer = absl::UnknownError("");
    bool stale = false;                            // The answer is an expired value that replaces an error.
    Instant expires_at = Instant::InfinitePast();  // Of the answer, if it was stored.
    uint64_t valid_for_joins_before =
        kNeverInvalidated;  // The answer is valid for calls that joined at a smaller `tag_invalidations`.
  };
  Result result STOCKADE_GUARDED_BY(kShardMutex);
  // For a thread that has seen that the flight is answered, which need not hold the mutex.
  const Result& FinalResult() const STOCKADE_NO_THREAD_SAFETY_ANALYSIS { return result; }
};

// The flights of one shard.
//
// Invariants for each key: at most two flights run at the same time. `current`, if it runs, is one of them, and the
// others are `detached`: their results are for calls that already wait, and are never stored. A current flight is
// blocked while two detached ones run. A key without flights has no record.
//
// Records are found by the key's hash, which the caller has, and then by key; the record of a flight is found by the
// flight. A flight that has begun can therefore end without calling Hash, Eq or a key, which may throw.
class FlightTable {
  struct OfKey {
    FlightPtr current;
    std::vector<FlightPtr> detached;  // At most two; they run.

    bool IsFor(const void* key) const { return (current != nullptr ? current : detached.front())->IsFor(key); }
    bool Has(const Flight& flight) const {
      return current.get() == &flight ||
             std::any_of(detached.begin(), detached.end(), [&](const FlightPtr& d) { return d.get() == &flight; });
    }
  };
  using Map = std::unordered_multimap<uint64_t, OfKey>;

  // `flights` is const or not.
  static auto Find(auto& flights, uint64_t hash, const void* key) {
    auto [found, end] = flights.equal_range(hash);
    while (found != end && !found->second.IsFor(key)) ++found;
    return found == end ? flights.end() : found;
  }
  static auto FindRecord(auto& flights, const Flight& flight) {
    auto [found, end] = flights.equal_range(flight.key.hash);
    while (found != end && !found->second.Has(flight)) ++found;
    return found == end ? flights.end() : found;
  }

 public:
  using Phase = Flight::Phase;

  bool empty() const { return flights_.empty(); }

  FlightPtr Current(uint64_t hash, const void* key) const {
    if (flights_.empty()) return nullptr;
    const auto found = Find(flights_, hash, key);
    return found == flights_.end() ? nullptr : found->second.current;
  }

  bool IsCurrent(const Flight& flight) const {
    const auto found = FindRecord(flights_, flight);
    return found != flights_.end() && found->second.current.get() == &flight;
  }

  // The flight becomes its key's current one; there must be none. If it throws, nothing has changed.
  void Start(const FlightPtr& flight) STOCKADE_REQUIRES(kShardMutex);

  // Detaches the current flight, so that later calls do not join it. A flight that has not started stays, because it
  // will load current data.
  void DetachRunning(uint64_t hash, const void* key) STOCKADE_REQUIRES(kShardMutex) {
    if (const auto found = Find(flights_, hash, key); found != flights_.end()) DetachRunning(found->second);
  }
  void DetachRunning(const Flight& flight) STOCKADE_REQUIRES(kShardMutex) {
    if (const auto found = FindRecord(flights_, flight); found != flights_.end()) DetachRunning(found->second);
  }
  template <typename Predicate>
  void DetachRunningIf(const Predicate& is_to_be_detached) STOCKADE_REQUIRES(kShardMutex) {
    for (auto& [hash, of_key] : flights_) {
      if (of_key.current != nullptr && is_to_be_detached(of_key.current)) DetachRunning(of_key);
    }
  }

  // For running current flights: calls that join from now on must not get a result with `tag`.
  // A flight whose lease is not older than the position `before` has begun after the invalidation.
  void NoteInvalidation(std::string_view tag, uint64_t before) STOCKADE_REQUIRES(kShardMutex) {
    for (auto& [hash, of_key] : flights_) {
      Flight* const current = of_key.current.get();
      if (current != nullptr && current->running() && current->LeasePosition() < before) {
        current->NoteInvalidation(tag);
      }
    }
  }

  // `flight` is current and has not started; it never will. The caller releases it without the mutex.
  [[nodiscard]] FlightPtr Drop(Flight& flight) STOCKADE_REQUIRES(kShardMutex) {
    flight.phase = Phase::kFinished;
    flight.Unblock();
    const auto found = FindRecord(flights_, flight);
    FlightPtr dropped = std::move(found->second.current);
    EraseIfEmpty(found);
    return dropped;
  }

  // The loader of `flight` has ended. `was_current`: it was not detached. `unblocked`: a flight that is ready now.
  struct Finished {
    bool was_current;
    FlightPtr unblocked;
  };
  Finished Finish(Flight& flight) STOCKADE_REQUIRES(kShardMutex) {
    Finished finished{};
    flight.phase = Phase::kFinished;
    const auto found = FindRecord(flights_, flight);
    OfKey& of_key = found->second;
    finished.was_current = of_key.current.get() == &flight;
    if (finished.was_current) {
      of_key.current.reset();
    } else {
      std::erase_if(of_key.detached, [&](const FlightPtr& other) { return other.get() == &flight; });
      if (of_key.current != nullptr && of_key.current->phase == Phase::kBlocked) {
        of_key.current->phase = Phase::kReady;
        of_key.current->Unblock();
        finished.unblocked = of_key.current;
      }
    }
    EraseIfEmpty(found);
    return finished;
  }

  // Includes detached flights.
  template <typename Callback>
  void ForEach(Callback callback) STOCKADE_REQUIRES(kShardMutex) {
    for (auto& [key, of_key] : flights_) {
      if (of_key.current != nullptr) callback(*of_key.current);
      for (const FlightPtr& flight : of_key.detached) callback(*flight);
    }
  }

 private:
  static void DetachRunning(OfKey& of_key) STOCKADE_REQUIRES(kShardMutex) {
    if (of_key.current == nullptr || !of_key.current->running()) return;
    of_key.detached.push_back(std::move(of_key.current));
    of_key.current.reset();
  }

  void EraseIfEmpty(Map::iterator of_key) {
    if (of_key->second.current == nullptr && of_key->second.detached.empty()) flights_.erase(of_key);
  }

  Map flights_;
};

// Flights in the order in which they were added, linked through themselves: a flight must be able to end without
// memory.
template <FlightPtr Flight::*Next>
class FlightList {
 public:
  FlightList() = default;
  ~FlightList() { Clear(); }
  FlightList(const FlightList&) = delete;
  FlightList& operator=(const FlightList&) = delete;

  bool empty() const { return first_ == nullptr; }
  void Add(FlightPtr flight) {
    Flight* const added = flight.get();
    (last_ != nullptr ? last_->*Next : first_) = std::move(flight);
    last_ = added;
  }
  // It must not be empty.
  FlightPtr Pop() {
    FlightPtr flight = std::move(first_);
    first_ = std::move((*flight).*Next);
    if (first_ == nullptr) last_ = nullptr;
    return flight;
  }
  // One by one, so that the destructors do not nest.
  void Clear() {
    while (!empty()) Pop();
  }

 private:
  FlightPtr first_;
  Flight* last_ = nullptr;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_FLIGHT_H_
