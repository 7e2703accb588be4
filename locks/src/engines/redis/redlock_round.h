#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_ROUND_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_ROUND_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redis_lock_commands.h"
#include "redlock_votes.h"
#include "stockade/base/mutex.h"
#include "stockade/base/strings.h"
#include "stockade/locks/lock_engine.h"
#include "stockade/redis/redis_reply.h"

namespace stockade::locks_internal {

// The errors of the servers. The caller gets one of them, preferably one that a retry does not fix.
struct Failures {
  void Note(const absl::Status& status, bool unknown) {
    outcome_unknown |= unknown;
    if (error.ok() || absl::IsUnavailable(error)) error = status;
  }
  absl::Status Error(size_t answered, size_t nodes) const {
    // Aborted: a retry with another number will do, which is more than can be said where some have granted it.
    const absl::StatusCode code = absl::IsAborted(error) ? absl::StatusCode::kUnavailable : error.code();
    return absl::Status(code, Concat(answered, " of ", nodes, " servers answered, but ", MajorityOf(nodes),
                                     " must: ", error.message()));
  }

  absl::Status error = absl::OkStatus();
  bool outcome_unknown = false;
};

// What the servers have answered to one try.
struct TryPoll {
  TryPoll(const LockTry& asked, size_t nodes) : step(asked), votes(nodes), refused(nodes, false) {}

  bool Decided() const { return votes.Decided().has_value(); }
  void Count(size_t node, const absl::StatusOr<RedisReply>& reply) {
    LockTry answer = step;
    RedisLockCommands::TakeAnswer(reply, answer);
    if (!answer.status.ok()) {
      failures.Note(answer.status, answer.outcome_unknown);
      return votes.CountFailure();
    }
    if (answer.acquired) return votes.CountGrant(answer.hold_count);
    refused[node] = true;
    votes.CountRefusal(answer.retry_after);
  }

  const LockTry step;
  TryVotes votes;
  Failures failures = {};
  std::vector<bool> refused;  // By the number of the server.
};

// What they have answered to one renewal or release.
struct HoldPoll {
  explicit HoldPoll(size_t nodes) : votes(nodes) {}

  bool Decided() const { return votes.Decided().has_value(); }
  void Count(const absl::Status& status, bool unknown, bool held) {
    if (status.ok()) return votes.CountAnswer(held);
    failures.Note(status, unknown);
    votes.CountFailure();
  }

  HoldVotes votes;
  Failures failures = {};
};

// Polls that are asked together. Answers come from any thread, and those that come late find it still there.
template <typename Poll>
class Round {
 public:
  explicit Round(size_t nodes) : nodes_(nodes) {}

  // Before anything is sent.
  void Add(Poll poll) {
    const MutexLock lock(mutex_);
    polls_.push_back({.poll = std::move(poll), .counted = std::vector<bool>(nodes_, false)});
    ++open_;
  }

  // Hands the poll to `count`, which counts what a server has answered: its first answer.
  template <typename Count>
  void Take(size_t at, size_t node, Count count) {
    const MutexLock lock(mutex_);
    Entry& entry = polls_[at];
    if (entry.counted[node]) return;
    entry.counted[node] = true;
    const bool decided = entry.poll.Decided();
    count(entry.poll);
    if (decided || !entry.poll.Decided() || --open_ > 0) return;
    decided_.NotifyAll();
  }

  // Blocks until all are decided, then hands each to `read`.
  template <typename Read>
  void Await(Read read) {
    const MutexLock lock(mutex_);
    while (open_ > 0) decided_.Wait(mutex_);
    for (size_t i = 0; i < polls_.size(); ++i) read(i, std::as_const(polls_[i].poll));
  }

 private:
  struct Entry {
    Poll poll;
    std::vector<bool> counted;  // By server.
  };

  const size_t nodes_;
  Mutex mutex_;
  CondVar decided_;
  std::vector<Entry> polls_ STOCKADE_GUARDED_BY(mutex_);
  size_t open_ STOCKADE_GUARDED_BY(mutex_) = 0;  // Polls that are not decided.
};

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDLOCK_ROUND_H_
