#ifndef STOCKADE_CACHE_SRC_FLIGHT_TABLE_H_
#define STOCKADE_CACHE_SRC_FLIGHT_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "flight.h"

namespace stockade::cache_internal {

// The flights of one shard. Guarded by the shard's mutex.
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

  // Creates the key's current flight; there must be none. If it throws, nothing has changed.
  FlightPtr Start(const CacheCore* cache, const std::string& cache_name, KeptKey key, LoaderPtr loader) {
    auto flight = std::make_shared<Flight>(cache, cache_name, std::move(key), std::move(loader));
    const KeyAt at = flight->key.at();
    auto record = Find(flights_, at.hash, at.key);
    if (record == flights_.end()) {
      OfKey of_key;
      of_key.detached.reserve(2);  // DetachRunning() must not throw.
      record = flights_.emplace(at.hash, std::move(of_key));
    }
    OfKey& of_key = record->second;
    of_key.current = flight;
    if (of_key.detached.size() == 2) {
      flight->phase = Phase::kBlocked;
      flight->BlockBy(of_key.detached[0].get(), of_key.detached[1].get());
    }
    return flight;
  }

  // Detaches the current flight, so that later calls do not join it. A flight that has not started stays, because it
  // will load current data.
  void DetachRunning(uint64_t hash, const void* key) {
    if (const auto found = Find(flights_, hash, key); found != flights_.end()) DetachRunning(found->second);
  }
  void DetachRunning(const Flight& flight) {
    if (const auto found = FindRecord(flights_, flight); found != flights_.end()) DetachRunning(found->second);
  }
  template <typename Predicate>
  void DetachRunningIf(const Predicate& is_to_be_detached) {
    for (auto& [hash, of_key] : flights_) {
      if (of_key.current != nullptr && is_to_be_detached(*of_key.current)) DetachRunning(of_key);
    }
  }

  // For running current flights: calls that join from now on must not get a result with `tag`.
  void Void(std::string_view tag) {
    for (auto& [hash, of_key] : flights_) {
      if (of_key.current != nullptr && of_key.current->phase == Phase::kRunning) of_key.current->Void(tag);
    }
  }

  // `flight` is current and has not started; it never will. The caller releases it without the mutex.
  [[nodiscard]] FlightPtr Drop(Flight& flight) {
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
  Finished Finish(Flight& flight) {
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
  void ForEach(Callback callback) {
    for (auto& [key, of_key] : flights_) {
      if (of_key.current != nullptr) callback(*of_key.current);
      for (const FlightPtr& flight : of_key.detached) callback(*flight);
    }
  }

 private:
  static void DetachRunning(OfKey& of_key) {
    if (of_key.current == nullptr || of_key.current->phase != Phase::kRunning) return;
    of_key.detached.push_back(std::move(of_key.current));
    of_key.current.reset();
  }

  void EraseIfEmpty(Map::iterator of_key) {
    if (of_key->second.current == nullptr && of_key->second.detached.empty()) flights_.erase(of_key);
  }

  Map flights_;
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_FLIGHT_TABLE_H_
