#ifndef STOCKADE_TESTS_CACHE_FLEET_LOAD_JUDGE_H_
#define STOCKADE_TESTS_CACHE_FLEET_LOAD_JUDGE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cache/fleet/fleet_tables.h"

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
struct LoadVerdict {
  std::vector<int64_t> unexplained = {};  // When they asked.
  int64_t lapses = 0;                     // The loads after a lease that ended without a value.
};

// Nobody knows in which order the server took what overlaps: a load that took long to ask may be due to a late cause,
// and the early one to another load. So the judge looks for the assignment that explains the most loads, by augmenting
// paths.
class LoadJudge {
 public:
  explicit LoadJudge(KeyHistory history) : loads_(std::move(history.loads)) {
    // Most loads then find a free cause at once. Without lapses the first free cause would always do.
    std::sort(loads_.begin(), loads_.end(),
              [](const LeasedLoad& a, const LeasedLoad& b) { return a.answered < b.answered; });
    causes_.push_back({0, 0});
    for (const LoadCause& cause : history.causes) causes_.push_back({cause.begin, cause.end});
    const auto expires = [&](int64_t stored) {
      const int64_t at = stored + kFleetTtl - kFleetTick;
      causes_.push_back({at, at});
    };
    for (const int64_t put : history.puts) expires(put);
    for (size_t load = 0; load < loads_.size(); ++load) {
      if (loads_[load].fill_begin != 0) {
        expires(loads_[load].fill_begin);
      } else {
        causes_.push_back({.begin = loads_[load].asked, .end = loads_[load].end, .lapsed = load});
      }
    }
    for (Cause& cause : causes_) {
      for (const LeasedLoad& load : loads_) {
        if (load.fill_begin != 0 && load.asked >= cause.end) cause.void_from = std::min(cause.void_from, load.end);
      }
    }
    std::sort(causes_.begin(), causes_.end(), [](const Cause& a, const Cause& b) { return a.void_from < b.void_from; });
  }

  LoadVerdict Judge() {
    LoadVerdict verdict;
    for (size_t load = 0; load < loads_.size(); ++load) {
      std::vector<bool> tried(causes_.size());
      if (!Explain(load, tried)) verdict.unexplained.push_back(loads_[load].asked);
    }
    for (const Cause& cause : causes_) verdict.lapses += cause.lapsed != kNone && cause.explains != kNone;
    return verdict;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  struct Cause {
    int64_t begin;
    int64_t end;
    size_t lapsed = kNone;  // The load whose lease ended without a value.
    int64_t void_from = kNever;
    size_t explains = kNone;  // A load.
  };

  // A load that ended without a value does not explain itself.
  bool Fits(const Cause& cause, size_t load) const {
    return cause.lapsed != load && cause.begin <= loads_[load].answered && loads_[load].asked < cause.void_from;
  }

  bool Explain(size_t load, std::vector<bool>& tried) {
    const auto free = std::find_if(causes_.begin(), causes_.end(),
                                   [&](const Cause& cause) { return cause.explains == kNone && Fits(cause, load); });
    if (free != causes_.end()) {
      free->explains = load;
      return true;
    }
    for (size_t cause = 0; cause < causes_.size(); ++cause) {
      if (tried[cause] || !Fits(causes_[cause], load)) continue;
      tried[cause] = true;
      if (!Explain(causes_[cause].explains, tried)) continue;
      causes_[cause].explains = load;
      return true;
    }
    return false;
  }

  std::vector<LeasedLoad> loads_;
  std::vector<Cause> causes_;
};

inline LoadVerdict JudgeLoads(KeyHistory history) { return LoadJudge(std::move(history)).Judge(); }

// The loads of one key by one process while Redis is away. The process keeps what it loads for kFleetStaleness, unless
// it drops that earlier.
class AwayLoads {
 public:
  // A question that began at `begin` was answered with "away".
  void NoteAway(int64_t begin) { asked_ = begin; }
  // A question was answered with a value or a lease.
  void NoteAnswer() { asked_ = loaded_ = 0; }
  // The process drops the value and the results of the loads that run. At most two loads run, and perhaps they have not
  // asked yet.
  void NoteDrop() {
    loaded_ = 0;
    dropped_loads_ = 2;
  }
  // A loader begins, on the thread of a lookup that began at `lookup`; 0: not on such a thread. Returns whether it may.
  // The value is kept from a moment between the lookup's beginning and its question. A question is not always followed
  // by a load: GetAll() asks for all its keys at once, and asks again when it loads them one by one.
  bool NoteLoad(int64_t lookup) {
    const int64_t asked = std::exchange(asked_, 0);
    if (asked == 0) return true;  // It has a lease.
    const bool has_value = loaded_ != 0 && asked < loaded_ + kFleetStaleness - kFleetTick;
    loaded_ = dropped_loads_ > 0 ? 0 : lookup;
    dropped_loads_ = std::max(dropped_loads_ - 1, 0);
    return !has_value;
  }

 private:
  int64_t asked_ = 0;      // The last question, if it was answered with "away".
  int64_t loaded_ = 0;     // The lookup of the last load without a lease. 0: the key may be loaded again.
  int dropped_loads_ = 0;  // So many loads from now on may be of those that ran at the last drop.
};

// The histories of the keys of a finished run. `killed_at` has the processes that were killed.
inline std::vector<KeyHistory> HistoriesOf(const FleetTables& tables, const std::map<int, int64_t>& killed_at) {
  // What was sent may still be on its way, through a proxy that holds it or by a kernel that sends it again. An
  // invalidation that was not accepted at once may be another one when it is sent again, and both take effect.
  constexpr int64_t kOnItsWay = 60'000 * kMillisecond;
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
        case FleetRecord::Kind::kInvalidation: {
          const bool sent_again = end != kNever && end - record.begin >= kFleetTimeout;
          history.causes.push_back({.begin = record.begin, .end = end + (sent_again ? kOnItsWay : 0)});
          break;
        }
        case FleetRecord::Kind::kReign: history.causes.push_back({.begin = record.begin, .end = end}); break;
      }
    }
  }
  return histories;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_FLEET_LOAD_JUDGE_H_
