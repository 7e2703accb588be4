#ifndef STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_ROUND_H_
#define STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_ROUND_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "stockade/base/clock.h"
#include "stockade/base/mutex.h"
#include "zookeeper_session.h"

namespace stockade::locks_internal {

// Requests that are asked together, and awaited by the thread that asks. Answers come from any thread, and those that
// come late find it still there.
class ZooKeeperRound : public std::enable_shared_from_this<ZooKeeperRound> {
 public:
  // Takes the answer that Await() gives at the next place, the first being 0.
  ZooKeeperSession::Answered Next() {
    const MutexLock lock(mutex_);
    answers_.push_back({.code = ZOPERATIONTIMEOUT});
    ++open_;
    return [self = shared_from_this(), at = answers_.size() - 1](ZooKeeperAnswer answer) {
      const MutexLock guard(self->mutex_);
      if (self->over_) return;
      self->answers_[at] = std::move(answer);
      if (--self->open_ == 0) self->answered_.NotifyAll();
    };
  }
  size_t size() const {
    const MutexLock lock(mutex_);
    return answers_.size();
  }

  // Once. Blocks until all are answered, or then: ZOPERATIONTIMEOUT stands for what is not. `session`: that is asked;
  // null where it is not known.
  std::vector<ZooKeeperAnswer> Await(Clock& clock, Instant until, ZooKeeperSession* session) {
    const MutexLock lock(mutex_);
    absl::Duration patience = kPatienceWithServer;
    Instant nudge_at = clock.Now() + patience;
    while (open_ > 0) {
      if (answered_.WaitUntil(clock, mutex_, std::min(until, nudge_at))) continue;
      if (clock.Now() >= until) break;
      {
        const MutexUnlock unlocked(mutex_);
        if (session != nullptr) session->Nudge();
      }
      patience *= 2;
      nudge_at = clock.Now() + patience;
    }
    over_ = true;
    return std::move(answers_);
  }

 private:
  mutable Mutex mutex_;
  CondVar answered_;
  std::vector<ZooKeeperAnswer> answers_ STOCKADE_GUARDED_BY(mutex_);
  size_t open_ STOCKADE_GUARDED_BY(mutex_) = 0;
  bool over_ STOCKADE_GUARDED_BY(mutex_) = false;
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_ROUND_H_
