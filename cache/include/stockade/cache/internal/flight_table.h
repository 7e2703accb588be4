#ifndef STOCKADE_CACHE_INTERNAL_FLIGHT_TABLE_H_
#define STOCKADE_CACHE_INTERNAL_FLIGHT_TABLE_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "stockade/cache/internal/flight.h"

namespace stockade::internal {

// The flights of one shard. Guarded by the shard's mutex.
//
// Invariants, for each key: at most two flights run at once; `current`, where it runs, is one of them, and the others
// are `detached`: what they load is for those who already wait and never stored. A current flight is blocked while two
// detached ones run. A key without flights has no record.
template <typename Key, typename Value, typename Hash, typename Eq>
class FlightTable {
 public:
  using FlightT = Flight<Key, Value, Eq>;
  using LoaderPtr = std::shared_ptr<const typename FlightT::Loader>;
  using FlightPtr = std::shared_ptr<FlightT>;
  using Phase = typename FlightT::Phase;

  FlightPtr Current(const Key& key) const {
    const auto found = flights_.find(key);
    return found == flights_.end() ? nullptr : found->second.current;
  }

  // No flight of the key, current or detached.
  bool Idle(const Key& key) const { return !flights_.contains(key); }

  // Makes the key's current flight; there must be none.
  FlightPtr Start(const void* cache, const Key& key, size_t shard, LoaderPtr loader) {
    OfKey& of_key = flights_[key];
    of_key.current = std::make_shared<FlightT>(cache, key, shard, std::move(loader));
    if (of_key.detached.size() == 2) {
      of_key.current->phase = Phase::kBlocked;
      of_key.current->BlockBy(of_key.detached[0].get(), of_key.detached[1].get());
    }
    return of_key.current;
  }

  // The current flight no longer counts for calls to come. One that has not started stays: what it will load is new.
  void DetachRunning(const Key& key) {
    if (const auto found = flights_.find(key); found != flights_.end()) DetachRunning(found->second);
  }
  void DetachAllRunning() {
    DetachRunningIf([](const Key&) { return true; });
  }
  template <typename Predicate>
  void DetachRunningIf(const Predicate& of_key_to_detach) {
    for (auto& [key, of_key] : flights_) {
      if (of_key_to_detach(key)) DetachRunning(of_key);
    }
  }

  // For loads that run and still count: whoever joins from here on must not get a result with `tag`.
  void Void(std::string_view tag) {
    for (auto& [key, of_key] : flights_) {
      if (of_key.current != nullptr && of_key.current->phase == Phase::kRunning) of_key.current->Void(tag);
    }
  }

  // `flight` is current and has not started: it never will. The caller lets go of it without the mutex.
  [[nodiscard]] FlightPtr Drop(FlightT& flight) {
    flight.phase = Phase::kFinished;
    flight.Unblock();
    const auto found = flights_.find(flight.key);
    FlightPtr dropped = std::move(found->second.current);
    EraseIfEmpty(found);
    return dropped;
  }

  // The loader of `flight` has ended. `was_current`: it was not detached. `unblocked`: a flight that is ready now.
  struct Finished {
    bool was_current;
    FlightPtr unblocked;
  };
  Finished Finish(FlightT& flight) {
    Finished finished{};
    flight.phase = Phase::kFinished;
    const auto found = flights_.find(flight.key);
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

  // For each flight, detached ones included.
  template <typename Callback>
  void ForEach(Callback callback) {
    for (auto& [key, of_key] : flights_) {
      if (of_key.current != nullptr) callback(*of_key.current);
      for (const FlightPtr& flight : of_key.detached) callback(*flight);
    }
  }

 private:
  struct OfKey {
    FlightPtr current;
    std::vector<FlightPtr> detached;  // At most two; they run.
  };
  using Map = std::unordered_map<Key, OfKey, Hash, Eq>;

  static void DetachRunning(OfKey& of_key) {
    if (of_key.current == nullptr || of_key.current->phase != Phase::kRunning) return;
    of_key.detached.push_back(std::move(of_key.current));
    of_key.current.reset();
  }

  void EraseIfEmpty(typename Map::iterator of_key) {
    if (of_key->second.current == nullptr && of_key->second.detached.empty()) flights_.erase(of_key);
  }

  Map flights_;
};

}  // namespace stockade::internal

#endif  // STOCKADE_CACHE_INTERNAL_FLIGHT_TABLE_H_
