#ifndef STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_SCRIPTS_H_
#define STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_SCRIPTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/redis/redis_reply.h"
#include "stockade/redis/redis_script.h"

namespace stockade::cache_internal {

// The steps that Redis runs for a tier, each atomically. docs/FLEET_CACHE_WIRE.md describes the keys, and
// redis_tier_scripts.cc the arguments and the answers. Each script except adopt and end takes the incarnation that its
// caller works with, and answers {'A'} ("adopt first") if that is not the present one.

// Takes the present reign, or begins a new one.
const RedisScript& TierAdoptScript();
// Registers a codec.
const RedisScript& TierOpenScript();
// Proves that the server accepts writes, and reads the journal.
const RedisScript& TierSyncScript();
// A value, or the lease to load it.
const RedisScript& TierAskScript();
// Stores a value and ends its lease.
const RedisScript& TierFillScript();
// Ends a lease without a value.
const RedisScript& TierEndScript();
// Prolongs leases.
const RedisScript& TierExtendScript();
// Invalidates a key, a tag, all, or all that processes have in memory.
const RedisScript& TierInvalidateScript();

// The integer at `at` of an array, or 0.
uint64_t NumberAt(std::span<const RedisReply> parts, size_t at);
std::string_view CodeOf(const absl::StatusOr<RedisReply>& reply);
absl::Status Unexpected(std::string_view step, const RedisReply& reply);

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_REDIS_REDIS_TIER_SCRIPTS_H_
