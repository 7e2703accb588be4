#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_FLEET_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_FLEET_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cache/schedules/history.h"

namespace stockade::testing {

// What was seen of a fleet: two processes whose caches have one tier, and the database that they load from.
//
// The model. The database of a key changes when an invalidation that concerns the key begins, a Put included: its
// writer has written before. A loader reads the database at one step, so its result is *as of* that step. A Put's value
// is as of the step at which the tier accepted the Put. A value is *older* than an invalidation that concerns it (its
// key, one of its tags, or all) if it is as of a step before the invalidation's begin.
//
// The rules, for a lookup of process p:
//   made     its answer is that of a load or a Put of the key, which had come to it by then.
//   P3       it is not older than an invalidation of p that returned before the lookup began. A Put that was under way
//            until after the invalidation began may have come after it.
//   P2       it is not older than an invalidation that the tier had accepted max_staleness before the lookup began.
//   shown    it is not older than an invalidation that a heartbeat of p showed which ended before the lookup began.
//   away     if the tier never stored it, no lookup finds it that began both after the work of its load and
//            max_staleness after the load began. A Put that the tier did not grant is never found after its end, and an
//            error never after the end of its load.
//   deadline, circle   only with a time-out, and within a loader.
// For the tier:
//   P1       it stores nothing that is older than an invalidation that it has accepted.
//   leases   each lease that a process has got is ended by it.
// For the loads of a key:
//   reason   a process loads only with a lease, or after the tier was away for it.
//   count    not more than 1, and 1 for each invalidation, refresh, expiry, lapsed lease, dropped record, new reign,
//            lost reply, result that the tier cannot store, and question that found the tier away.
struct FleetHistory {
  static constexpr int64_t kNotYet = Scheduler::kNever;

  enum class Scope { kKey, kTag, kAll };

  struct Invalidation {
    int process = 0;
    Scope scope = Scope::kAll;
    int key = 0;
    unsigned tags = 0;
    int64_t begin = 0;
    int64_t end = kNotYet;
    Stamp accepted = {kNotYet, kNotYet};
  };
  // What a load or a Put came to; each has an id.
  struct Made {
    int key = 0;
    unsigned tags = 0;
    bool put = false;
    bool error = false;
    int64_t as_of = kNotYet;  // A Put: when it was granted.
    int64_t made = kNotYet;   // The loader returned, or the Put began.
    Stamp began;              // The loader was entered.
    int64_t ended = kNotYet;  // The call or task that ran the loader, or the Put.
    bool stored = false;      // By the tier.
  };
  struct Heartbeat {
    int process = 0;
    int64_t shown = 0;  // The tier was not reached.
    int64_t ended = kNotYet;
  };
  struct Lookup {
    int process = 0;
    int key = 0;
    bool timed = false;
    bool in_loader = false;
    Stamp begin;
    int64_t end = kNotYet;
    Outcome outcome;
  };
  // The tier has stored `id`.
  struct Store {
    int64_t step = 0;
    int64_t id = 0;
  };
  struct Count {
    int64_t loads = 0;
    int64_t allowed = 1;
  };

  std::vector<Invalidation> invalidations;
  std::map<int64_t, Made> made;
  std::vector<Heartbeat> heartbeats;
  std::vector<Lookup> lookups;
  std::vector<Store> stores;
  std::map<int, Count> counts;  // By key.
};

struct FleetRules {
  int64_t max_staleness = 0;    // Nanoseconds.
  bool stale_if_error = false;  // The rules P2 and away do not hold.
};

// Returns the rule that the history breaks, or nothing if it keeps them all.
std::string CheckFleet(const FleetRules& rules, const FleetHistory& history);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_FLEET_H_
