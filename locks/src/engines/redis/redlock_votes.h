#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_VOTES_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_VOTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/time/time.h"

namespace stockade::locks_internal {

// What N independent servers have answered to one step, and what follows from it as soon as the answers that are
// missing cannot change it. Plain values.

// The least number that is more than half of them.
constexpr size_t MajorityOf(size_t nodes) { return nodes / 2 + 1; }

class TryVotes {
 public:
  enum class Outcome : uint8_t {
    kAcquired,
    kBusy,         // Others have it, or some of it, and enough nodes answer to get it later.
    kUnreachable,  // Too few answer.
  };

  explicit TryVotes(size_t nodes) : nodes_(nodes) {}

  void CountGrant(int64_t hold_count) {
    const auto place = std::upper_bound(counts_.begin(), counts_.end(), hold_count, std::greater<>());
    counts_.insert(place, hold_count);
  }
  void CountRefusal(absl::Duration lapses_after) {
    ++refused_;
    lapses_after_ = std::min(lapses_after_, lapses_after);
  }
  void CountFailure() { ++failed_; }

  // None: not decided yet.
  std::optional<Outcome> Decided() const {
    if (granted() >= majority()) return CountKnown() ? std::optional(Outcome::kAcquired) : std::nullopt;
    if (granted() + missing() >= majority()) return std::nullopt;
    if (granted() + refused_ >= majority()) return Outcome::kBusy;
    return failed_ > nodes_ - majority() ? std::optional(Outcome::kUnreachable) : std::nullopt;
  }

  // kAcquired: the largest count that a majority has, so that an outer hold which a majority has lost does not count.
  // Where nodes come and go between re-entries it may be too small: then the outer hold is given up too early, which
  // is the safe side.
  int64_t hold_count() const { return counts_[majority() - 1]; }
  // The largest count on any node before this step; zero where none has granted it.
  int64_t count_before() const { return counts_.empty() ? 0 : std::max<int64_t>(counts_.front() - 1, 0); }

  size_t granted() const { return counts_.size(); }
  size_t refused() const { return refused_; }
  size_t missing() const { return nodes_ - granted() - refused_ - failed_; }
  size_t majority() const { return MajorityOf(nodes_); }
  // When the first of those who refused may grant it; infinite where none knows.
  absl::Duration lapses_after() const { return lapses_after_; }

 private:
  // Whether hold_count() stays what it is, however large the missing answers are.
  bool CountKnown() const {
    return missing() == 0 || (missing() < majority() && hold_count() == counts_[majority() - missing() - 1]);
  }

  size_t nodes_;
  std::vector<int64_t> counts_;  // Of those who granted it, the largest first.
  size_t refused_ = 0;
  size_t failed_ = 0;
  absl::Duration lapses_after_ = absl::InfiniteDuration();
};

// To a renewal or a release: whether there was such a hold.
class HoldVotes {
 public:
  enum class Outcome : uint8_t {
    kHeld,     // A majority has it.
    kLost,     // No majority can have it.
    kUnknown,  // Too few answer to tell.
  };

  explicit HoldVotes(size_t nodes) : nodes_(nodes) {}

  void CountAnswer(bool held) { ++(held ? held_ : lost_); }
  void CountFailure() { ++failed_; }

  std::optional<Outcome> Decided() const {
    if (held_ >= majority()) return Outcome::kHeld;
    if (lost_ > nodes_ - majority()) return Outcome::kLost;
    return missing() == 0 ? std::optional(Outcome::kUnknown) : std::nullopt;
  }

  size_t answered() const { return held_ + lost_; }
  size_t missing() const { return nodes_ - answered() - failed_; }
  size_t majority() const { return MajorityOf(nodes_); }

 private:
  size_t nodes_;
  size_t held_ = 0;
  size_t lost_ = 0;
  size_t failed_ = 0;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_VOTES_H_
