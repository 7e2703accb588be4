#ifndef STOCKADE_CACHE_SRC_REDIS_INVALIDATION_QUEUE_H_
#define STOCKADE_CACHE_SRC_REDIS_INVALIDATION_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "redis_tier_record.h"
#include "stockade/base/instant.h"
#include "stockade/cache/cache_tier.h"

namespace stockade::cache_internal {

// An invalidation that Redis has not accepted yet.
struct PendingInvalidation {
  enum class State {
    kHeld,      // Its caller removes the entries of the process, and then sends it.
    kSending,   // Its caller sends it.
    kQueued,    // The caller could not send it. The tier's thread will.
    kRetrying,  // The tier's thread sends it.
  };
  TierScope scope = TierScope::kAll;
  std::string text = {};
  State state = State::kHeld;
  Instant since = {};
  uint64_t last_id = 0;  // It stands for all ids from its own to this one.
  // Identifies the operation in the journal, so that a repeat is recognised.
  std::string operation = {};
  // If it may have run: the reign in which it was sent, and the position that was applied before.
  uint64_t sent_in = 0;
  uint64_t sent_after = 0;
};

// The pending invalidations of one cache. The tier's mutex guards it.
//
// Invariants: an invalidation stays pending until Redis has accepted it or one that covers it. Only invalidations in
// kQueued are merged, because one in kSending or kRetrying may run before the new one is requested.
class InvalidationQueue {
 public:
  using State = PendingInvalidation::State;

  // `tokens` creates the operations. The tier's mutex guards it, too.
  InvalidationQueue(TierTokens* tokens, size_t most_queued) : tokens_(tokens), most_queued_(most_queued) {}

  // Returns the id of the pending invalidation that covers `target` from now on: a new one; or a queued one of the same
  // target, or one of all keys that has not been sent. A queued one gets a new operation.
  uint64_t Add(const TierInvalidation& target, Instant now);
  // Null if it has been accepted.
  PendingInvalidation* Find(uint64_t id);
  // Removes an invalidation that Redis has accepted.
  void Accept(uint64_t id);
  // Changes the state to kQueued. If more than `most_queued` are queued, they become one invalidation of all.
  void Enqueue(uint64_t id);
  // The same for those of `ids` in kHeld.
  void EnqueueHeld(std::span<const uint64_t> ids);
  // Queues the invalidations in kHeld that were added before `limit`: their callers failed to send them.
  void EnqueueHeldBefore(Instant limit);
  // Turns an invalidation that is being sent into one of all keys, with a new operation.
  void Widen(uint64_t id);
  // Changes up to `count` queued invalidations to kRetrying, the oldest first. Returns their ids.
  std::vector<uint64_t> TakeQueued(size_t count);

  enum class Concern {
    kNone,
    kInFlight,  // Its caller is about to send it, or has sent it.
    kQueued,
  };
  Concern ConcernOf(std::string_view key) const;

  bool empty() const { return pending_.empty(); }
  size_t size() const { return pending_.size(); }
  size_t queued() const { return queued_; }
  // The id of the newest invalidation; 0 if none was added.
  uint64_t newest() const { return next_ - 1; }
  bool AnyUpTo(uint64_t id) const { return !pending_.empty() && pending_.begin()->first <= id; }

 private:
  using Pending = std::map<uint64_t, PendingInvalidation>;

  static std::string TargetOf(TierScope scope, std::string_view text);
  // Whether invalidations of this scope may concern every key.
  static bool IsWide(TierScope scope) { return scope == TierScope::kTag || scope == TierScope::kAll; }
  static bool InFlight(State state) { return state == State::kHeld || state == State::kSending; }
  uint64_t QueuedFor(const std::string& target) const;
  void Insert(uint64_t id, PendingInvalidation pending);
  void Erase(Pending::iterator at);
  void ToQueued(PendingInvalidation& pending);
  void Merge();

  TierTokens* const tokens_;
  const size_t most_queued_;
  Pending pending_;  // By the first id that each stands for.
  // Ids by target. A target has at most one queued invalidation, and one per caller that sends now.
  absl::flat_hash_map<std::string, std::vector<uint64_t>> by_target_;
  std::vector<uint64_t> merged_;  // Invalidations that stand for several ids.
  uint64_t next_ = 1;
  size_t queued_ = 0;
  size_t wide_ = 0;            // Invalidations of tags and of all keys.
  size_t wide_in_flight_ = 0;  // Those of wide_ in kHeld or kSending.
};

}  // namespace stockade::cache_internal

#endif  // STOCKADE_CACHE_SRC_REDIS_INVALIDATION_QUEUE_H_
