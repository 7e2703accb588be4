#include "invalidation_queue.h"

#include <algorithm>
#include <utility>

namespace stockade::cache_internal {

std::string InvalidationQueue::TargetOf(TierScope scope, std::string_view text) {
  return std::string(1, static_cast<char>(scope)).append(text);
}

uint64_t InvalidationQueue::QueuedFor(const std::string& target) const {
  const auto found = by_target_.find(target);
  if (found == by_target_.end()) return 0;
  for (const uint64_t id : found->second) {
    if (pending_.at(id).state == State::kQueued) return id;
  }
  return 0;
}

uint64_t InvalidationQueue::Add(const TierInvalidation& target, Instant now) {
  uint64_t id = QueuedFor(TargetOf(TierScope::kAll, {}));
  // If an invalidation of all keys may have run, a new operation would make the fleet load all keys twice.
  if (id == 0 || pending_.at(id).sent_in != 0) id = QueuedFor(TargetOf(target.scope, target.text));
  if (id != 0) {
    // An earlier attempt may have run before this call, so it must not count as this invalidation.
    PendingInvalidation& pending = pending_.at(id);
    pending.operation = tokens_->Token();
    pending.sent_in = 0;
    return id;
  }
  id = next_++;
  Insert(id, {.scope = target.scope,
              .text = std::string(target.text),
              .since = now,
              .last_id = id,
              .operation = tokens_->Token()});
  return id;
}

void InvalidationQueue::Insert(uint64_t id, PendingInvalidation pending) {
  by_target_[TargetOf(pending.scope, pending.text)].push_back(id);
  if (IsWide(pending.scope)) {
    ++wide_;
    if (InFlight(pending.state)) ++wide_in_flight_;
  }
  if (pending.state == State::kQueued) ++queued_;
  if (pending.last_id != id) merged_.push_back(id);
  pending_.emplace(id, std::move(pending));
}

void InvalidationQueue::Erase(Pending::iterator at) {
  const auto& [id, pending] = *at;
  const auto found = by_target_.find(TargetOf(pending.scope, pending.text));
  std::erase(found->second, id);
  if (found->second.empty()) by_target_.erase(found);
  if (IsWide(pending.scope)) {
    --wide_;
    if (InFlight(pending.state)) --wide_in_flight_;
  }
  if (pending.state == State::kQueued) --queued_;
  if (pending.last_id != id) std::erase(merged_, id);
  pending_.erase(at);
}

PendingInvalidation* InvalidationQueue::Find(uint64_t id) {
  if (const auto found = pending_.find(id); found != pending_.end()) return &found->second;
  for (const uint64_t first : merged_) {
    PendingInvalidation& pending = pending_.at(first);
    if (first <= id && id <= pending.last_id) return &pending;
  }
  return nullptr;
}

void InvalidationQueue::Accept(uint64_t id) {
  if (const auto found = pending_.find(id); found != pending_.end()) Erase(found);
}

void InvalidationQueue::Enqueue(uint64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end() || found->second.state == State::kQueued) return;
  ToQueued(found->second);
  if (queued_ > most_queued_) Merge();
}

void InvalidationQueue::EnqueueHeld(std::span<const uint64_t> ids) {
  for (const uint64_t id : ids) {
    const auto found = pending_.find(id);
    if (found != pending_.end() && found->second.state == State::kHeld) ToQueued(found->second);
  }
  if (queued_ > most_queued_) Merge();
}

void InvalidationQueue::ToQueued(PendingInvalidation& pending) {
  if (IsWide(pending.scope) && InFlight(pending.state)) --wide_in_flight_;
  pending.state = State::kQueued;
  ++queued_;
}

void InvalidationQueue::EnqueueHeldBefore(Instant limit) {
  std::vector<uint64_t> late;
  for (const auto& [id, pending] : pending_) {
    if (pending.state == State::kHeld && pending.since < limit) late.push_back(id);
  }
  EnqueueHeld(late);
}

void InvalidationQueue::Widen(uint64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  PendingInvalidation pending = found->second;
  Erase(found);
  pending.scope = TierScope::kAll;
  pending.text.clear();
  pending.operation = tokens_->Token();
  pending.sent_in = 0;
  Insert(id, std::move(pending));
}

std::vector<uint64_t> InvalidationQueue::TakeQueued(size_t count) {
  std::vector<uint64_t> taken;
  for (auto& [id, pending] : pending_) {
    if (taken.size() == count || queued_ == 0) break;
    if (pending.state != State::kQueued) continue;
    pending.state = State::kRetrying;
    --queued_;
    taken.push_back(id);
  }
  return taken;
}

InvalidationQueue::Concern InvalidationQueue::ConcernOf(std::string_view key) const {
  if (wide_ > wide_in_flight_) return Concern::kQueued;
  Concern concern = wide_ > 0 ? Concern::kInFlight : Concern::kNone;
  if (pending_.size() == wide_) return concern;
  const auto found = by_target_.find(TargetOf(TierScope::kKey, key));
  if (found == by_target_.end()) return concern;
  for (const uint64_t id : found->second) {
    concern = std::max(concern, InFlight(pending_.at(id).state) ? Concern::kInFlight : Concern::kQueued);
  }
  return concern;
}

void InvalidationQueue::Merge() {
  PendingInvalidation all{.state = State::kQueued, .operation = tokens_->Token()};
  uint64_t first = 0;
  for (auto at = pending_.begin(); at != pending_.end();) {
    const auto next = std::next(at);
    if (at->second.state == State::kQueued) {
      if (first == 0) {
        first = at->first;
        all.since = at->second.since;
      }
      all.last_id = std::max(all.last_id, at->second.last_id);
      Erase(at);
    }
    at = next;
  }
  Insert(first, std::move(all));
}

}  // namespace stockade::cache_internal
