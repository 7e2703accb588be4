#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_FAIR_SCRIPTS_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_FAIR_SCRIPTS_H_

#include "stockade/redis/redis_script.h"

namespace stockade::locks_internal {

// The scripts of the fair lock: as the reentrant one, with a LIST of waiters in order of arrival, and a ZSET of the
// times (ms) at which each waiter is considered dead. A Redisson waiter enters a time that is 300 s after that of the
// waiter before it, and subtracts those 300 s from all others when it acquires the lock. So the time says little, and a
// dead waiter of Redisson's blocks the queue.
//
// Stockade's waiters refresh their times regularly: each sets its own to 3 s from now, plus 300 s per Redisson waiter
// before it, which that waiter will subtract. A waiter that stays away is dropped by the next client that tries. If the
// head's time is far away and it does not come though the lock is free, it is notified once more, and dropped 3 s
// later.
//
// All times are the server's. A Redisson client whose clock is 3 s ahead of it considers Stockade's waiters dead, and
// they go to the end of the queue.
const RedisScript& FairTryScript();
const RedisScript& FairReleaseScript();

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_FAIR_SCRIPTS_H_
