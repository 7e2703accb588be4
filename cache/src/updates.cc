// Updates, and the read locks of strict mode.
//
// Locks cannot deadlock. An update holds no other lock of a cache while it waits for its key's lock, because updates
// are refused within a loader, a strict read or another update of any cache. A read waits for a lock only if it is the
// thread's outermost read, and a read of several keys holds no lock while it waits for one.
//
// Reads within loaders and updates acquire no lock. This is safe, because everything that they store for a key that is
// being written is invalidated after the write.

#include "loads.h"
#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/cache/internal/cache_core.h"
#include "strict.h"

namespace stockade::cache_internal {

// Lives as long as an update of a strict cache has, or waits for, its key's lock.
class CacheCore::UpdateMark {
 public:
  UpdateMark(CacheCore& core, const KeyAt& at) : core_(core), hash_(at.hash), shard_(at.shard) {
    const ShardLock lock = Lock(core_.shards_[shard_]);
    ++core_.shards_[shard_].updates[hash_].under_way;
  }
  // The lock must be released.
  ~UpdateMark() {
    Shard& shard = core_.shards_[shard_];
    size_t woken = 0;
    {
      const ShardLock lock = Lock(shard);
      const auto updates = shard.updates.find(hash_);
      woken = updates->second.parked.size();
      Waiter::MoveAll(updates->second.parked, shard.ready, true);
      if (--updates->second.under_way == 0) shard.updates.erase(updates);
    }
    for (; woken > 0; --woken) core_.ScheduleRead(shard_);
  }
  UpdateMark(const UpdateMark&) = delete;
  UpdateMark& operator=(const UpdateMark&) = delete;

 private:
  CacheCore& core_;
  const uint64_t hash_;
  const size_t shard_;
};

absl::Status CacheCore::UpdateThrough(const KeyAt& at, absl::FunctionRef<absl::Status()> write,
                                      absl::Duration timeout) {
  try {
    if (IsNested()) {
      return absl::FailedPreconditionError(
          Named(": UpdateThrough() was called within a loader, another update or a strict read"));
    }
    Aftermath after(*this);          // Declared before the lock, so that its work is done after the release.
    std::optional<UpdateMark> mark;  // Ends after the lock, too.
    if (options_.strict) mark.emplace(*this, at);
    const auto writing = key_locks_->TryLockFor(at.hash, timeout);
    if (!writing.has_value()) return DeadlineError();
    InvalidateWithin(at, after);
    absl::Status written = [&] {
      UpdateFrame frame;
      return GuardCallback<absl::Status>(write_label_, write);
    }();
    InvalidateWithin(at, after);
    return written;
  } catch (...) {  // Before the write, because later code catches its own exceptions.
    return ThrownError();
  }
}

// Returns false if the deadline passed.
bool CacheCore::TakeReadLock(uint64_t hash, Instant deadline, ReadHold& hold) {
  if (IsNested()) return true;
  if (deadline == Instant::InfiniteFuture()) {
    hold.guard = key_locks_->LockShared(hash);
  } else {
    hold.guard = key_locks_->TryLockSharedFor(hash, deadline - Now());
  }
  if (hold.guard.has_value()) hold.frame.emplace();
  return hold.guard.has_value();
}

// Answers the parts whose lock is not free before the deadline. If a lock is not free, it releases all others, waits
// for that lock, and then tries the others again.
void CacheCore::TakeReadLocks(std::span<Part> parts, Instant deadline, LockGuards& guards) {
  if (IsNested()) return;
  for (Part* awaited = parts.empty() ? nullptr : &parts.front(); awaited != nullptr;) {
    guards.clear();
    ReadHold first;
    if (TakeReadLock(awaited->at.hash, deadline, first)) {
      guards.push_back(*std::move(first.guard));
    } else {
      awaited->answer = DeadlineError();
    }
    Part* next = nullptr;
    for (Part& part : parts) {
      if (&part == awaited || part.answer.has_value()) continue;
      auto guard = key_locks_->TryLockShared(part.at.hash);
      if (guard.has_value()) {
        guards.push_back(*std::move(guard));
      } else if (Now() >= deadline) {
        part.answer = DeadlineError();
      } else {
        next = &part;
        break;
      }
    }
    awaited = next;
  }
}

}  // namespace stockade::cache_internal
