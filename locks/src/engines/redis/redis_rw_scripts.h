#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_RW_SCRIPTS_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_RW_SCRIPTS_H_

#include "stockade/redis/redis_script.h"

namespace stockade::locks_internal {

// Of the read-write lock. Its hash has `mode`, "read" or "write", beside the holders; a reader is there while one of
// its time-out keys is, 1 to its count, so that one who crashed keeps nobody out for longer than its lease, whatever
// others renew. Redisson looks at that when somebody releases; Stockade also when somebody wants to write.
const RedisScript& ReadTryScript();
const RedisScript& WriteTryScript();
const RedisScript& ReadReleaseScript();
const RedisScript& WriteReleaseScript();

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_RW_SCRIPTS_H_
