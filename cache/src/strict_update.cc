// An update of a strict cache with a tier. tests/models/fleet_strict.pml shows that these steps suffice.
//
// Readers hold no lock. A process serves its memory while it is trusted, which is a lease on time (Gray and Cheriton,
// "Leases", SOSP 1989): until its max_staleness has passed since it sent its last heartbeat. So an update marks the key
// in the tier, by the invalidation `Hold()`, and waits. Then no process has an older value that it trusts, and while
// the mark stands, none gets one. `Release()` removes the mark. If it was lost, older values may have been stored
// since, and the update waits again.

#include <algorithm>
#include <utility>

#include "shard.h"
#include "stockade/base/guard_callback.h"
#include "stockade/cache/internal/cache_core.h"
#include "tier_side.h"

namespace stockade::cache_internal {
namespace {

// The rates of two machines' clocks differ by less than a thousandth. A tier may count whole milliseconds.
constexpr double kClockDrift = 1.001;
constexpr absl::Duration kClockStep = absl::Milliseconds(2);

}  // namespace

// The caller holds the lock of the key in this process. Throws only before there is a mark.
absl::StatusOr<UpdateReport> TierSide::Update(const KeyAt& at, LockedWrite write, absl::Duration timeout,
                                              AfterUnlock& after) {
  std::string key;
  absl::Status encoded = GuardCallback<absl::Status>(codec_label, [&] { return core.EncodeKey(at.key, &key); });
  if (absl::IsInternal(encoded)) return encoded;
  if (!encoded.ok()) {
    return absl::InvalidArgumentError(core.Named(Concat(": UpdateThrough(): ", encoded.message())));
  }
  const absl::StatusOr<LockLease> lock = cache->Lock(key, timeout, lock_waits.get_token());
  if (!lock.ok()) return lock.status();
  const absl::StatusOr<int64_t> token = lock->fencing_token();
  if (!token.ok()) return token.status();
  const uint64_t queued = cache->Queue({TierTarget::Kind::kKey, key});
  core.ClearKey(at, CacheCore::kAnyPosition, after);
  const TierMark held = cache->Hold(queued, *token);
  if (held.kind == TierMark::Kind::kAway) {
    return absl::UnavailableError(core.Named(": UpdateThrough(): the tier does not answer; `write` did not run"));
  }
  if (held.kind != TierMark::Kind::kStands) return LockLostError();
  bool runs = false;
  absl::Status written = core.Guarded<absl::Status>("an update", [&] {
    if (absl::Status waited = AwaitTrust(held.bound); !waited.ok()) return waited;
    if (!lock->valid()) return LockLostError();
    runs = true;
    const UpdateFrame frame(&core, at.hash);
    return GuardCallback<absl::Status>(core.write_label_, [&] { return write(*lock); });
  });
  const absl::Status settled = Settle(at, key, held, runs, after);
  if (!written.ok()) return written;
  return UpdateReport{.settled = settled.ok(), .reason = settled};
}

// Ends the update. `written`: the write has run. Not OK: processes may have older values.
absl::Status TierSide::Settle(const KeyAt& at, std::string_view key, const TierMark& held, bool written,
                              AfterUnlock& after) noexcept {
  try {
    const uint64_t queued = cache->Queue({TierTarget::Kind::kKey, key});
    core.ClearKey(at, CacheCore::kAnyPosition, after);
    const TierMark released = cache->Release(queued, held);
    if (released.kind == TierMark::Kind::kAway) {
      return absl::UnavailableError(core.Named(": UpdateThrough(): the tier has not confirmed the end of the update"));
    }
    if (released.kind == TierMark::Kind::kStands || !written) return absl::OkStatus();
    return AwaitTrust(std::max(held.bound, released.bound));
  } catch (...) {
    absl::Status thrown = core.ThrownError();
    core.InvalidateUnknown();
    return thrown;
  }
}

// Waits until no process trusts what it has in memory from before this call, if the longest max_staleness is `bound`.
absl::Status TierSide::AwaitTrust(absl::Duration bound) {
  const absl::Duration longest = std::max(bound, cache->max_staleness());
  const Instant until = core.Now() + longest * kClockDrift + kClockStep;
  const MutexLock lock(waits_mutex);
  while (core.Now() < until) {
    if (waits_cancelled) return core.CancelledError();
    waits_end.WaitUntil(*core.options_.clock, waits_mutex, until);
  }
  return absl::OkStatus();
}

void TierSide::CancelWaits() {
  cache->CancelWaits();
  lock_waits.request_stop();
  [this] {
    const MutexLock lock(waits_mutex);
    waits_cancelled = true;
  }();
  waits_end.NotifyAll();
}

absl::Status TierSide::LockLostError() const noexcept {
  return StatusWithText(absl::StatusCode::kAborted, [&] {
    return core.Named(": UpdateThrough(): the lock was lost before `write`, which did not run");
  });
}

}  // namespace stockade::cache_internal
