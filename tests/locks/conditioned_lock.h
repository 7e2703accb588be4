#ifndef STOCKADE_TESTS_LOCKS_CONDITIONED_LOCK_H_
#define STOCKADE_TESTS_LOCKS_CONDITIONED_LOCK_H_

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <ostream>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "companion.h"
#include "lock_condition.h"
#include "stockade/locks/reentrant_mutex.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::testing {

// Other locks that the calling thread holds, so that holds go into the overflow of its record.
class OtherHolds {
 public:
  enum class Where {
    kNone,
    kElsewhere,   // Two share an entry, so one is in the overflow; no lock has the entry `place`.
    kEverywhere,  // Every entry is taken: what else the thread takes goes into the overflow.
  };

  OtherHolds(Where where, uint32_t place) {
    std::array<int, locks_internal::ThreadRecord::kEntries> used{};
    for (size_t entries = 0; where != Where::kNone;) {
      const ReentrantMutex& lock = locks_.emplace_back();
      const uint32_t at = PlaceOf(&lock);
      if (where == Where::kElsewhere && at == place) continue;
      int& there = used[at / sizeof(locks_internal::Hold)];
      entries += there++ == 0 ? 1 : 0;
      held_.push_back(&locks_.back());
      if (held_.size() > entries && (where == Where::kElsewhere || entries == used.size())) break;
    }
    for (ReentrantMutex* lock : held_) lock->lock();
  }
  ~OtherHolds() {
    for (ReentrantMutex* lock : held_) lock->unlock();
  }

  OtherHolds(const OtherHolds&) = delete;
  OtherHolds& operator=(const OtherHolds&) = delete;

 private:
  std::deque<ReentrantMutex> locks_;
  std::vector<ReentrantMutex*> held_;
};

enum class Condition { kFresh, kBiased, kFavoursTester, kFavoursLiveThread, kFavoursEndedThread };

struct LockSetting {
  Condition condition;
  OtherHolds::Where others;  // Of the tester: the thread that makes the lock.
  bool fifo;
};

inline void PrintTo(const LockSetting& setting, std::ostream* out) {
  *out << static_cast<int>(setting.condition) << static_cast<int>(setting.others) << setting.fifo;
}

inline std::string NameOf(const ::testing::TestParamInfo<LockSetting>& info) {
  static constexpr const char* kConditions[] = {"Fresh", "Biased", "FavoursTester", "FavoursLive", "FavoursEnded"};
  static constexpr const char* kOthers[] = {"", "WithOverflow", "InOverflow"};
  return std::string(kConditions[static_cast<int>(info.param.condition)]) +
         kOthers[static_cast<int>(info.param.others)] + (info.param.fifo ? "Fifo" : "");
}

// Each condition there is, with the FIFO option and without.
inline std::vector<LockSetting> AllSettings() {
  using Where = OtherHolds::Where;
  std::vector<LockSetting> all;
  for (const bool fifo : {false, true}) {
    for (const Condition condition : {Condition::kFresh, Condition::kBiased, Condition::kFavoursTester}) {
      for (const Where others : {Where::kNone, Where::kElsewhere, Where::kEverywhere}) {
        all.push_back({condition, others, fifo});
      }
    }
    all.push_back({Condition::kFavoursLiveThread, Where::kNone, fifo});
    all.push_back({Condition::kFavoursEndedThread, Where::kNone, fifo});
  }
  return all;
}

// A free lock in a condition. Without the FIFO option it has a name and metrics, so some of its holds are timed.
class ConditionedLock {
 public:
  explicit ConditionedLock(const LockSetting& setting) : setting_(setting) { Renew(); }

  ReentrantSharedMutex& operator*() { return *lock_; }
  ReentrantSharedMutex* operator->() { return &*lock_; }

  // Another thread, which holds nothing: the one that is favoured where the lock favours a live one.
  Companion& companion() { return companion_; }
  // Whether it gets in now, for writing or reading. It lets go at once.
  bool OtherGetsIn() {
    return companion_.Ask([&] { return std::unique_lock(*lock_, std::try_to_lock).owns_lock(); });
  }
  bool OtherReads() {
    return companion_.Ask([&] { return std::shared_lock(*lock_, std::try_to_lock).owns_lock(); });
  }

  // A new one in the same condition, instead of the old one, which must be free.
  void Renew() {
    others_.reset();
    lock_.emplace(LockOptions{.name = setting_.fifo ? "" : "catalogue", .fifo = setting_.fifo, .metrics = &registry_});
    switch (setting_.condition) {
      case Condition::kFresh: break;
      case Condition::kBiased:
        ReadOften(*lock_);
        EXPECT_TRUE(ReadsPublished(*lock_));
        break;
      case Condition::kFavoursTester: BecomeFavoured(); break;
      case Condition::kFavoursLiveThread: companion_.Do([&] { BecomeFavoured(); }); break;
      case Condition::kFavoursEndedThread: std::thread([&] { BecomeFavoured(); }).join(); break;
    }
    others_.emplace(setting_.others, PlaceOf(&*lock_));
  }

  // Destroys it.
  void Destroy() { lock_.reset(); }

 private:
  void BecomeFavoured() {
    WriteOften(*lock_);
    EXPECT_EQ(WritesPublished(*lock_), LocksFavourThreads());
  }

  const LockSetting setting_;
  MetricsRegistry registry_;
  Companion companion_;
  std::optional<ReentrantSharedMutex> lock_;
  std::optional<OtherHolds> others_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_CONDITIONED_LOCK_H_
