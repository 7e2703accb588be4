#ifndef STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_KEYS_H_
#define STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_KEYS_H_

#include <string>
#include <string_view>

#include "stockade/locks/lock_engine.h"

namespace stockade::locks_internal {

// The names under which Redisson keeps a lock. All keys and channels of a lock are in the slot of its name. The
// exceptions are names with braces in which Redis finds no hash tag ("a{b", "a}b"); clusters refuse their locks.

// "before:{name}", or "before:name" if the name contains a '{'.
std::string PrefixedLockKey(std::string_view before, std::string_view name);
// "{name}:after", or "name:after".
std::string SuffixedLockKey(std::string_view name, std::string_view after);

// A random UUID of version 8, the vendor-defined one. The version distinguishes Stockade's waiters in a fair queue from
// Java's (version 4).
std::string NewRedisLockClientId();

// "<client id>:<owner>", for a write hold with ":write" behind it: the field of the lock's hash.
std::string LockHolder(std::string_view client_id, const HoldKey& hold);

// Stockade's own, of which Java knows nothing: the newest step of a holder.
std::string LockRecordKey(std::string_view name, std::string_view holder);
std::string LockTokenKey(std::string_view name);

// What the time-out keys of a read-write lock's readers begin with: "<base><holder>:rwlock_timeout:<number>".
std::string ReadTimeoutsBase(std::string_view name);

// The waiters of a fair lock, the times at which they are taken for dead, and Stockade's note of one who did not come.
std::string FairQueueKey(std::string_view name);
std::string FairTimesKey(std::string_view name);
std::string FairNoteKey(std::string_view name);

// What a release is published on: of a fair lock, with the holder behind it who waits.
std::string LockChannel(std::string_view name, LockKind kind);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_REDIS_REDIS_LOCK_KEYS_H_
