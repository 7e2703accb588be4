#ifndef STOCKADE_LOCKS_SRC_ZOOKEEPER_ZOOKEEPER_ROUND_H_
#define STOCKADE_LOCKS_SRC_ZOOKEEPER_ZOOKEEPER_ROUND_H_

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "stockade/base/clock.h"
#include "zookeeper_session.h"

namespace stockade::internal {

// Requests that are asked together, and awaited by the thread that asks. Answers come from any thread, and those that
// come late find it still there.
class ZooKeeperRound : public std::enable_shared_from_this<ZooKeeperRound> {
 public:
  // Takes the answer that Await() gives at the next place, the first being 0.
  ZooKeeperSession::Answered Next() {
    const std::lock_guard lock(mutex_);
    answers_.push_back({.code = ZOPERATIONTIMEOUT});
    ++open_;
    return [self = shared_from_this(), at = answers_.size() - 1](ZooKeeperAnswer answer) {
      const std::lock_guard guard(self->mutex_);
      if (self->over_) return;
      self->answers_[at] = std::move(answer);
      if (--self->open_ == 0) self->answered_.notify_all();
    };
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return answers_.size();
  }

  // Once. Blocks until all are answered, or then: ZOPERATIONTIMEOUT stands for what is not. `session`: that is asked;
  // null where it is not known.
  std::vector<ZooKeeperAnswer> Await(Clock& clock, Instant until, ZooKeeperSession* session) {
    std::unique_lock lock(mutex_);
    absl::Duration patience = kPatienceWithServer;
    Instant nudge_at = clock.Now() + patience;
    while (open_ > 0) {
      if (clock.WaitUntil(answered_, lock, std::min(until, nudge_at))) continue;
      if (clock.Now() >= until) break;
      lock.unlock();
      if (session != nullptr) session->Nudge();
      lock.lock();
      patience *= 2;
      nudge_at = clock.Now() + patience;
    }
    over_ = true;
    return std::move(answers_);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::vector<ZooKeeperAnswer> answers_;  // Guarded by mutex_, as all below.
  size_t open_ = 0;
  bool over_ = false;
};

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_SRC_ZOOKEEPER_ZOOKEEPER_ROUND_H_
