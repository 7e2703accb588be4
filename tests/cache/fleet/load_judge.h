#ifndef STOCKADE_TESTS_CACHE_FLEET_LOAD_JUDGE_H_
#define STOCKADE_TESTS_CACHE_FLEET_LOAD_JUDGE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cache/fleet/fleet_tables.h"
#include "stockade/base/strings.h"

namespace stockade::testing {

// A lease that was granted to load a key, in a finished run.
struct LeasedLoad {
  int64_t asked = 0;  // The grant happened between these two.
  int64_t answered = 0;
  int64_t fill_begin = 0;  // 0: nothing was stored.
  int64_t end = kNever;    // When the lease was over, at the latest.
  int process = 0;
};

// Something after which the fleet may load a key once: it happened between the two times.
struct LoadCause {
  int64_t begin = 0;
  int64_t end = 0;
};

// What happened to one key.
struct KeyHistory {
  std::vector<LeasedLoad> loads = {};
  std::vector<LoadCause> causes = {};  // Invalidations and new reigns.
  std::vector<int64_t> puts = {};      // When values were stored without a load.
};

// Finds loads that nothing explains. Each load needs a cause of its own: the cold start, an invalidation, a new reign,
// the expiry of a stored value, or a load whose lease ended without a value. A cause is no longer one after a load that
// was granted after the cause's end has stored its value.
//
struct LoadVerdict {
  std::vector<int64_t> unexplained;  // When they asked.
  int64_t lapses = 0;                // The loads after a lease that ended without a value.
};

inline LoadVerdict JudgeLoads(KeyHistory history) {
  struct Cause {
    int64_t begin;
    int64_t end;
    int64_t void_from;
    bool lapse = false;
    bool used = false;
  };
  std::vector<Cause> causes = {{0, 0, kNever}};
  for (const LoadCause& cause : history.causes) causes.push_back({cause.begin, cause.end, kNever});
  const auto expires = [&](int64_t stored) {
    const int64_t at = stored + kFleetTtl - kFleetTick;
    causes.push_back({at, at, kNever});
  };
  for (const int64_t put : history.puts) expires(put);
  for (const LeasedLoad& load : history.loads) {
    if (load.fill_begin != 0) {
      expires(load.fill_begin);
    } else {
      causes.push_back({load.asked, load.end, kNever, true});
    }
  }
  std::vector<const LeasedLoad*> stored;
  for (const LeasedLoad& load : history.loads) {
    if (load.fill_begin != 0) stored.push_back(&load);
  }
  for (Cause& cause : causes) {
    for (const LeasedLoad* load : stored) {
      if (load->asked >= cause.end) cause.void_from = std::min(cause.void_from, load->end);
    }
  }
  std::sort(causes.begin(), causes.end(), [](const Cause& a, const Cause& b) { return a.void_from < b.void_from; });
  std::sort(history.loads.begin(), history.loads.end(),
            [](const LeasedLoad& a, const LeasedLoad& b) { return a.asked < b.asked; });
  LoadVerdict verdict;
  for (const LeasedLoad& load : history.loads) {
    const auto cause = std::find_if(causes.begin(), causes.end(), [&](const Cause& one) {
      // A load that ended without a value does not explain itself.
      const bool own = one.lapse && one.begin == load.asked && load.fill_begin == 0;
      return !one.used && !own && one.begin <= load.answered && load.asked < one.void_from;
    });
    if (cause == causes.end()) {
      verdict.unexplained.push_back(load.asked);
      continue;
    }
    cause->used = true;
    verdict.lapses += cause->lapse;
  }
  return verdict;
}

// The histories of the keys of a finished run. `killed_at` has the processes that were killed.
inline std::vector<KeyHistory> HistoriesOf(const FleetTables& tables, const std::map<int, int64_t>& killed_at) {
  // What a killed process has sent may still be on its way through a proxy that holds it.
  constexpr int64_t kOnItsWay = 5'000 * kMillisecond;
  std::vector<KeyHistory> histories(kFleetKeys);
  const uint32_t count = tables.record_count;
  for (uint32_t at = 0; at < count; ++at) {
    const FleetRecord& record = tables.records[at];
    if (!record.written) continue;  // Killed in the middle of it.
    const auto killed = killed_at.find(record.process);
    const int64_t end = record.end != 0 ? record.end.load()
                        : killed != killed_at.end()
                            ? killed->second + (record.kind == FleetRecord::Kind::kGrant ? kFleetLease : kOnItsWay)
                            : kNever;
    for (int key = 0; key < kFleetKeys; ++key) {
      if (record.key != FleetRecord::kAllKeys && record.key != key) continue;
      KeyHistory& history = histories[static_cast<size_t>(key)];
      switch (record.kind) {
        case FleetRecord::Kind::kGrant:
          history.loads.push_back({.asked = record.begin,
                                   .answered = record.answered,
                                   .fill_begin = record.fill_begin,
                                   .end = end,
                                   .process = record.process});
          break;
        case FleetRecord::Kind::kPut: history.puts.push_back(record.fill_begin); break;
        case FleetRecord::Kind::kInvalidation:
        case FleetRecord::Kind::kReign: history.causes.push_back({.begin = record.begin, .end = end}); break;
      }
    }
  }
  return histories;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_FLEET_LOAD_JUDGE_H_
