#ifndef STOCKADE_CACHE_INTERNAL_FLIGHT_H_
#define STOCKADE_CACHE_INTERNAL_FLIGHT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "stockade/base/instant.h"
#include "stockade/base/strings.h"
#include "stockade/cache/internal/flight_graph.h"
#include "stockade/cache/internal/flight_waiter.h"
#include "stockade/cache/internal/pinned.h"
#include "stockade/cache/load_context.h"

namespace stockade::cache_internal {

template <typename Key, typename Value, typename Eq>
struct AsyncCall;

// A key for messages: quoted if it is text, otherwise as printed by operator<<, or "?".
template <typename Key>
std::string KeyText(const Key& key) {
  constexpr size_t kLongest = 100;  // Bytes.
  std::string text = "?";
  try {
    if constexpr (std::is_convertible_v<const Key&, std::string_view>) {
      text = Concat("'", absl::CHexEscape(AbslView(std::string_view(key).substr(0, kLongest))), "'");
    } else if constexpr (requires(std::ostream& out) { out << key; }) {
      std::ostringstream out;
      out << key;
      text = std::move(out).str().substr(0, kLongest);
    }
  } catch (...) {  // A key that cannot be printed.
  }
  return text;
}

// One load of one key. Everything except the constants is guarded by the mutex of the key's shard.
//
// Invariants: the thread that changes the phase from kReady to kRunning runs the loader. The phase changes back only if
// that thread's caller gave up and others wait. `answer` is final when `answered` is true. That may be before the
// loader has ended (a Put, a time-out, the destruction of the cache), and is the case at the latest then. A call that
// has joined stays in `waiters` or `async` until it has its answer or leaves.
template <typename Key, typename Value, typename Eq>
struct Flight final : FlightNode {
  using Loader = CacheLoader<Key, Value>;

  enum class Phase {
    kBlocked,  // Two older loads of the key still run.
    kReady,    // A waiting call or a thread of an executor may run it.
    kRunning,
    kFinished,
  };

  Flight(const CacheBase* cache, const std::string& n, const Key& k, uint64_t h, size_t s,
         std::shared_ptr<const Loader> l)
      : FlightNode(cache), cache_name(n), key(k), hash(h), shard(s), loader(std::move(l)) {}

  bool IsFor(const void* other) const override { return Eq()(key, *static_cast<const Key*>(other)); }

  std::string Text() const override { return Concat("'", cache_name, "' key ", KeyText(key)); }

  bool started() const { return phase == Phase::kRunning || phase == Phase::kFinished; }
  bool queued() const { return on_load_executor || on_refresh_executor; }
  bool awaited() const { return !waiters.empty() || !async.empty(); }

  // From here on the loader sees current data. `was` and `was_tags` are the value and the tags that the key has.
  void Begin(Instant hard, Pinned<Value> was, std::vector<std::string> was_tags) {
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
  const Key key;
  const uint64_t hash;  // The hash of the key.
  const size_t shard;
  const std::shared_ptr<const Loader> loader;  // The loader of the call that started it; null for the cache's.

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
  std::list<std::shared_ptr<AsyncCall<Key, Value, Eq>>> async;

  Pinned<Value> previous;  // The value of the key when the run began.
  std::vector<std::string> previous_tags;
  uint64_t voids = 0;                      // The number of invalidations of tags so far.
  std::map<std::string, uint64_t> voided;  // For each tag its first invalidation in this run, as a value of `voids`.

  bool answered = false;
  bool stale = false;                 // The answer is an expired value that replaces an error.
  uint64_t fit_below = kNeverVoided;  // The answer is valid for calls that joined at a smaller `voids`.
  absl::StatusOr<Pinned<Value>> answer = absl::UnknownError("");
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_INTERNAL_FLIGHT_H_
