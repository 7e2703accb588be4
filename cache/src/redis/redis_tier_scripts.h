#ifndef STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_SCRIPTS_H_
#define STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_SCRIPTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "stockade/redis/redis_command.h"
#include "stockade/redis/redis_reply.h"
#include "stockade/redis/redis_script.h"

namespace stockade::cache_internal {

// The steps of a tier. Redis runs each atomically. docs/FLEET_CACHE_WIRE.md describes the keys, and
// redis_tier_scripts.cc the arguments and the answers. Each script except adopt and end takes the incarnation that its
// caller uses, and answers {'A'} ("adopt first") if that is not the present one.

// Returns the present reign, or begins a new one.
const RedisScript& TierAdoptScript();
// Registers a codec.
const RedisScript& TierOpenScript();
// Proves that the server accepts writes, and reads the journal.
const RedisScript& TierSyncScript();
// Returns a value, or grants the lease to load it.
const RedisScript& TierAskScript();
// Stores a value and ends its lease.
const RedisScript& TierFillScript();
// Ends a lease without a value.
const RedisScript& TierEndScript();
// Renews leases.
const RedisScript& TierExtendScript();
// Invalidates a key, a tag, all values of a cache, or all that processes have in memory of it.
const RedisScript& TierInvalidateScript();

// Adds the arguments of a script, its ARGV.
template <typename... Args>
RedisCommand WithArgs(RedisCommand command, const Args&... args) {
  (command.Arg(args), ...);
  return command;
}

// The elements of a reply; none if it is not an array.
std::span<const RedisReply> PartsOf(const absl::StatusOr<RedisReply>& reply);
// The first element, which determines the meaning of the others.
std::string_view CodeOf(std::span<const RedisReply> parts);
// The integer at `at` of an array, or 0.
uint64_t NumberAt(std::span<const RedisReply> parts, size_t at);

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_SCRIPTS_H_
