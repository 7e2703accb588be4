#ifndef STOCKADE_LOCKS_REDIS_FAIR_SCRIPTS_H_
#define STOCKADE_LOCKS_REDIS_FAIR_SCRIPTS_H_

#include "stockade/redis/redis_script.h"

namespace stockade::internal {

// Of the fair lock: as the reentrant one, with a LIST of waiters in the order in which they came, and a ZSET of the
// times (ms) at which each is taken for dead. Redisson's waiters enter a time far away, 300 s behind that of the one
// before them, and take those 300 s off all others when they enter the lock. So it tells little, and a dead one blocks
// the queue.
//
// Stockade's waiters say again and again that they are alive, each time for 3 s, and for 300 s more for each of
// Redisson's before them, which those will take off. One that stays away is dropped by the next who looks. One whose
// time is far away, and who does not come though the lock is free, is told once more, and dropped 3 s later.
//
// All times are the server's. A Redisson client whose clock is 3 s ahead of it takes Stockade's waiters for dead, and
// they go to the end of the queue.
const RedisScript& FairTryScript();
const RedisScript& FairReleaseScript();

}  // namespace stockade::internal

#endif  // STOCKADE_LOCKS_REDIS_FAIR_SCRIPTS_H_
