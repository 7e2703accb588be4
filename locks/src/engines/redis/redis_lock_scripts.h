#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_SCRIPTS_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_SCRIPTS_H_

#include "stockade/locks/acquire_options.h"
#include "stockade/redis/redis_script.h"

namespace stockade::locks_internal {

// What Redis runs for a lock, each in one step. redis_lock_commands.cc says their keys and arguments, and reads what
// they answer.
//
// Beside the lock's hash each holder has a record, "<sequence> <count>" and, where its newest step was a release, " h",
// " n" or " f": held, not held, forgotten, as ReleaseAnswer has them. By it a step that comes twice counts once, and
// one that comes late is refused. A '*' at the end says that the lock is held as fair. So there is no need of the latch
// by which Redisson's releases can be repeated. It outlives the hold by 20 s.

inline bool IsReadWrite(LockKind kind) { return kind == LockKind::kRead || kind == LockKind::kWrite; }

// What a try answers: {code, and what follows}.
enum class TryAnswer {
  kBusy = 0,       // In how many milliseconds to retry; negative: unknown.
  kAcquired = 1,   // The count, the token or 0.
  kStale = 2,      // Nothing.
  kOtherKind = 3,  // Nothing.
  kNotALock = 4,   // Nothing.
  kNoToken = 5,    // Nothing: the newest token is the largest one.
  kLeft = 6,       // Nothing: an application has written into the key, and the owner's hold was removed.
};

// What a release answers.
enum class ReleaseAnswer {
  kNotHeld = 0,
  kHeld = 1,
  kStale = 2,
  kForgotten = 3,  // Not held, and nothing is known of the holder: as kNotHeld, or it comes a second time.
};

const RedisScript& LockTryScript(LockKind kind);
// For kReentrant.
const RedisScript& LockTryWithoutTokenScript();
const RedisScript& LockReleaseScript(LockKind kind);
// Any number of holds, of all kinds. Answers 1 or 0 for each, whether there was such a hold, or an error as text.
const RedisScript& LockRenewScript();
// Of all kinds. Answers {milliseconds that it is held for, -2 if it is free, -3 if the key is not a lock; the holder's
// count; the LockKind}.
const RedisScript& LockInspectScript();
// Of all kinds. Answers the LockKind that it was held as; -1: nobody held it; -2: the key is not a lock.
const RedisScript& LockForceScript();

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_SCRIPTS_H_
