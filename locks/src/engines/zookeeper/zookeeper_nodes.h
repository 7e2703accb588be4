#ifndef STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_NODES_H_
#define STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_NODES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stockade/locks/acquire_options.h"

namespace stockade::locks_internal {

// How locks are laid out in ZooKeeper, and who is in. A lock is a node, and its children are its queue: holders in
// front, waiters behind them, each named
//
//   <client>-<attempt>-<x|f|r|w>-<sequence>
//
// The first two are nobody else's, so that a node whose making was not answered is found again; the sequence is
// ZooKeeper's, of ten digits. x, f and w exclude all others, r those. A read within its owner's write has the sequence
// of that write: it is where that is, and stays there when the write ends.

// The name of a lock's node: other bytes than letters, digits, '-', '.', '_', '~' as %XX, and so a '.' in front.
std::string LockNode(std::string_view lock);

// Of "/a/b/c": "/a", "/a/b".
std::vector<std::string> ParentsOf(std::string_view path);

// "<client>-<attempt>-<letter>-", what ZooKeeper puts the sequence behind.
std::string NodePrefix(std::string_view client, uint64_t attempt, LockKind kind);

// The name of a read within a write: in that one's place.
std::string NestedName(std::string_view prefix, std::string_view write);

struct QueueNode {
  LockKind kind = LockKind::kReentrant;
  int32_t sequence = 0;
  std::string_view digits = {};  // The sequence as it stands there.
};

// None: not one of ours. It points into `name`.
std::optional<QueueNode> ParseNode(std::string_view name);

// Sequences are ZooKeeper's 32-bit counters, which go on at the smallest after the largest.
bool SequenceBefore(int32_t a, int32_t b);

// What the children of a lock say of one of them, or of one that is to come.
struct QueuePlace {
  bool there = false;                         // It is among them.
  bool other_kind = false;                    // The lock is used as another kind of lock.
  std::optional<std::string> waits_for = {};  // The last one before it that keeps it out; none: it is in.
};

// Of the child `node`. Once it is in it stays in, whatever comes: all that comes later is behind it.
QueuePlace PlaceOf(std::span<const std::string> children, std::string_view node);
// Of a node of this kind that would be made now.
QueuePlace PlaceAtEnd(std::span<const std::string> children, LockKind kind);

// Those that are in.
std::vector<std::string> NodesThatAreIn(std::span<const std::string> children);

// What those that are in hold the lock as: kWrite where the writer reads too.
LockKind KindOf(std::span<const std::string> in);

// The one whose name begins so.
std::optional<std::string> FindByPrefix(std::span<const std::string> children, std::string_view prefix);

}  // namespace stockade::locks_internal

#endif  // STOCKADE_LOCKS_SRC_ENGINES_ZOOKEEPER_ZOOKEEPER_NODES_H_
