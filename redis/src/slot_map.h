#ifndef STOCKADE_REDIS_SLOT_MAP_H_
#define STOCKADE_REDIS_SLOT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "key_slot.h"
#include "stockade/redis/redis_endpoint.h"
#include "stockade/redis/redis_options.h"
#include "stockade/redis/redis_reply.h"

namespace stockade::redis_internal {

// Which node of a cluster serves which slot. A value type, of 32 KiB; not thread-safe while it is changed.
//
// Invariants: owners_ has kKeySlots entries, each kNobody or less than nodes_.size(); nodes_ holds each endpoint once
// and at most kMaxNodes of them, since what servers say must not make connections without end.
class SlotMap {
 public:
  static constexpr uint16_t kNobody = 0xFFFF;
  static constexpr size_t kMaxNodes = kMaxRedisNodes;

  SlotMap() : owners_(kKeySlots, kNobody) {}
  // Reads the answer of the node `asked` to CLUSTER SLOTS. A node without a host is at that of `asked`; one of which no
  // address is known is left out, with its slots. A replica is that of the first master that is named with it.
  // FailedPrecondition, with what is wrong, where it is no such answer, a host is not an IsHostName(), no slot is
  // served, or there are more than kMaxNodes masters or kKeySlots ranges. O(slots * ranges + names * log(nodes)).
  static absl::StatusOr<SlotMap> Parse(const RedisReply& reply, const RedisEndpoint& asked);

  // kNobody, or an index in nodes().
  uint16_t OwnerOf(uint16_t slot) const { return owners_[slot]; }
  // All that serve slots, and those that were added.
  std::span<const RedisEndpoint> nodes() const { return nodes_; }
  // The replicas of a node, by its index in nodes().
  std::span<const RedisEndpoint> ReplicasOf(uint16_t node) const;
  // Serve none, but know who does.
  std::span<const RedisEndpoint> replicas() const { return replicas_; }

  // The index of `node`, which is added where it is new; kNobody where it is one too many. O(nodes).
  uint16_t Add(const RedisEndpoint& node);
  // `owner` is an index in nodes().
  void Assign(uint16_t slot, uint16_t owner) { owners_[slot] = owner; }

  // Whether each slot is served by the same endpoint. O(slots + nodes squared).
  bool SameOwners(const SlotMap& other) const;

 private:
  std::vector<RedisEndpoint> nodes_;
  std::vector<uint16_t> owners_;
  std::vector<RedisEndpoint> replicas_;
  std::vector<std::vector<RedisEndpoint>> replicas_of_;  // Of the first nodes_; those that were added have none.
};

// "MOVED 3999 127.0.0.1:6381" or "ASK ...", as the node `asked` answers it.
struct Redirection {
  uint16_t slot;
  RedisEndpoint to;
};
// Nothing where it cannot be read, the host is not an IsHostName(), or the node's address is not known there.
std::optional<Redirection> ParseRedirection(std::string_view error, const RedisEndpoint& asked);

}  // namespace stockade::redis_internal

#endif  // STOCKADE_REDIS_SLOT_MAP_H_
