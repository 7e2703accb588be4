#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_WATCH_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_WATCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "redlock_votes.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/redis/redis_client.h"

namespace stockade::locks_internal {

// Makes one hint of what N nodes tell of one release, when a majority has told it: at the first a try would come too
// early, and a hint for each would wake as many waiters. For one thread at a time.
class QuorumHints {
 public:
  explicit QuorumHints(size_t nodes) : told_(nodes, 0), listens_(nodes, false) {}

  // Each: whether it makes a hint.
  bool Released(size_t node) {
    const int64_t before = Level();
    ++told_[node];
    return Level() > before;
  }
  // It is heard from now on, perhaps after a gap: what it has not told it will not tell any more.
  bool Listens(size_t node) {
    told_[node] = std::max(told_[node], Level());
    if (listens_[node]) return true;
    listens_[node] = true;
    return static_cast<size_t>(std::count(listens_.begin(), listens_.end(), true)) == MajorityOf(listens_.size());
  }

 private:
  // How many releases a majority has told.
  int64_t Level() const {
    std::vector<int64_t> sorted = told_;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    return sorted[MajorityOf(sorted.size()) - 1];
  }

  std::vector<int64_t> told_;
  std::vector<bool> listens_;
};

// Hears `channel` on all nodes. One that refuses is left out; null where a majority does.
std::unique_ptr<LockWatch> WatchQuorum(std::span<const std::unique_ptr<RedisClient>> nodes, const std::string& channel,
                                       std::function<void()> on_hint);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_WATCH_H_
