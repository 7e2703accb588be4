#ifndef STOCKADE_CACHE_SRC_FLIGHT_H_
#define STOCKADE_CACHE_SRC_FLIGHT_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "flight_graph.h"
#include "stockade/base/clock.h"
#include "stockade/base/instant.h"
#include "stockade/base/parker.h"
#include "stockade/base/strings.h"
#include "stockade/cache/internal/erased.h"
#include "stockade/cache/internal/pinned.h"

namespace stockade::cache_internal {

struct AsyncCall;

// One thread that waits for a flight. Each has its own parker, so that thousands that are answered at once do not
// contend for a mutex.
//
// Invariant: it is in its flight's list, or it has left, or the flight is answered and a thread will call Wake(true).
class FlightWaiter {
 public:
  FlightWaiter(Clock& clock, Instant until, bool in_loader) : deadline(until), nested(in_loader), parker_(clock) {}

  // Sleeps until it is woken or the clock passes `until`; wake-ups may be spurious. Returns true if the flight has its
  // answer, which the caller may read without a lock. After false the caller must check the flight again.
  bool Wait(Instant until) {
    parker_.Park(until);
    return answered_.load(std::memory_order_acquire);
  }

  // Not lost if Wait() comes later. The caller must hold a pointer to this object, because the waiter may leave at
  // once.
  void Wake(bool answered) {
    if (answered) answered_.store(true, std::memory_order_release);
    parker_.Unpark();
  }

  const Instant deadline;
  const bool nested;  // Its thread runs a loader, so it must not wait for an executor.
  // Guarded by the mutex of the flight's shard.
  bool seated = false;  // Is in the list, at `place`.
  bool parked = false;  // Is in Wait(), or was woken from it and has not checked the flight yet.
  std::list<std::shared_ptr<FlightWaiter>>::iterator place;

 private:
  Parker parker_;
  std::atomic<bool> answered_{false};
};

// One load of one key. Everything except the constants is guarded by the mutex of the key's shard.
//
// Invariants: the thread that changes the phase from kReady to kRunning runs the loader. The phase changes back only if
// that thread's caller gave up and others wait. `answer` is final when `answered` is true. That may be before the
// loader has ended (a Put, a time-out, the destruction of the cache), and is the case at the latest then. A call that
// has joined stays in `waiters` or `async` until it has its answer or leaves.
struct Flight final : FlightNode {
  enum class Phase {
    kBlocked,  // Two older loads of the key still run.
    kReady,    // A waiting call or a thread of an executor may run it.
    kRunning,
    kFinished,
  };

  Flight(const CacheBase* cache, const std::string& n, KeptKey k, LoaderPtr l)
      : FlightNode(cache), cache_name(n), key(std::move(k)), loader(std::move(l)) {}

  bool IsFor(const void* other) const override { return key.holder->Is(other); }

  std::string Text() const override { return Concat("'", cache_name, "' key ", key.holder->Text()); }

  bool started() const { return phase == Phase::kRunning || phase == Phase::kFinished; }
  bool queued() const { return on_load_executor || on_refresh_executor; }
  bool awaited() const { return !waiters.empty() || !async.empty(); }

  // From here on the loader sees current data. `was` and `was_tags` are the value and the tags that the key has.
  void Begin(Instant hard, Pinned was, std::vector<std::string> was_tags) {
    phase = Phase::kRunning;
    hard_deadline = hard;
    previous = std::move(was);
    previous_tags = std::move(was_tags);
    voided.clear();
    roused = nullptr;
    relayed = false;
  }

  // Records that a tag was invalidated while the loader ran.
  void Void(std::string_view tag) { voided.try_emplace(std::string(tag), ++voids); }
  // For a result with `tags`: the first invalidation of one of them. The result is valid only for calls that joined
  // before it.
  uint64_t FirstVoid(const std::vector<std::string>& tags) const {
    uint64_t first = kNeverVoided;
    for (const std::string& tag : tags) {
      if (const auto found = voided.find(tag); found != voided.end()) first = std::min(first, found->second);
    }
    return first;
  }

  static constexpr uint64_t kNeverVoided = std::numeric_limits<uint64_t>::max();

  const std::string& cache_name;
  const KeptKey key;
  const LoaderPtr loader;  // The loader of the call that started it; null for the cache's.

  Phase phase = Phase::kReady;
  bool on_load_executor = false;  // Was passed to that executor.
  bool on_refresh_executor = false;
  bool in_background = false;  // Runs even if no thread waits for it.
  // The waiter that was woken to run it, and whether only that waiter may, because the last runner gave up.
  const FlightWaiter* roused = nullptr;
  bool relayed = false;
  // Counted from the creation, then from the queueing, then from the start: while calls wait, it only moves later.
  Instant hard_deadline = Instant::InfiniteFuture();
  std::list<std::shared_ptr<FlightWaiter>> waiters;
  std::list<std::shared_ptr<AsyncCall>> async;

  Pinned previous;  // The value of the key when the run began.
  std::vector<std::string> previous_tags;
  uint64_t voids = 0;                      // The number of invalidations of tags so far.
  std::map<std::string, uint64_t> voided;  // For each tag its first invalidation in this run, as a value of `voids`.

  bool answered = false;
  bool stale = false;                 // The answer is an expired value that replaces an error.
  uint64_t fit_below = kNeverVoided;  // The answer is valid for calls that joined at a smaller `voids`.
  Answer answer = absl::UnknownError("");
};
using FlightPtr = std::shared_ptr<Flight>;

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_FLIGHT_H_
