#include "stockade/locks/lock_lease.h"

#include <algorithm>
#include <new>
#include <utility>

#include "service_core.h"
#include "shown_lock.h"
#include "stockade/base/log.h"
#include "stockade/base/strings.h"

namespace stockade {
namespace {

absl::Status OfNothing() { return absl::FailedPreconditionError("the lease is empty"); }

}  // namespace

LockLease::LockLease(std::shared_ptr<locks_internal::LeaseState> state) : state_(std::move(state)) {}

LockLease::~LockLease() {
  if (state_ == nullptr) return;
  if (state_->core->fork_guard().InForkedChild()) {
    // It is the parent's, and what it needs for its end is not here.
    new (std::nothrow) std::shared_ptr<locks_internal::LeaseState>(std::move(state_));
    return;
  }
  if (state_->released.load(std::memory_order_relaxed)) return;
  const auto log_failure = [state = state_](const absl::Status& released) {
    if (released.ok() || state->LossIsLogged()) return;
    base_internal::Log(LogSeverity::kWarning, base_internal::Concat("a lease ended: ", released.message()));
  };
  if (state_->release_waits) {
    log_failure(state_->core->ReleaseOnce(*state_));
  } else {
    state_->core->ReleaseAsync(state_, log_failure);
  }
}

LockLease& LockLease::operator=(LockLease&& other) noexcept {
  const LockLease before(std::exchange(state_, std::move(other.state_)));
  return *this;
}

bool LockLease::valid() const { return state_ != nullptr && state_->core->Valid(*state_); }

std::stop_token LockLease::lost() const {
  if (state_ == nullptr) return {};
  if (!valid() && state_->IsLost()) {
    // Another thread may not have requested the stop yet. A request from here would run the callbacks that are already
    // registered on this thread, so this token is of another source.
    std::stop_source lost;
    lost.request_stop();
    return lost.get_token();
  }
  return state_->lost_source.get_token();
}

absl::StatusOr<int64_t> LockLease::fencing_token() const {
  if (state_ == nullptr) return OfNothing();
  if (!state_->token) {
    return absl::FailedPreconditionError(
        base_internal::Concat(locks_internal::ShownLock(name()),
                              " has no fencing token: ", degraded() ? "it is degraded" : "its engine has none"));
  }
  return *state_->token;
}

absl::Duration LockLease::remaining() const {
  if (!valid()) return absl::ZeroDuration();
  return std::max(absl::ZeroDuration(), state_->hold->ValidUntil() - state_->hold->clock->Now());
}

int64_t LockLease::hold_count() const {
  if (!valid()) return 0;
  const base_internal::MutexLock lock(state_->hold->mutex);
  return static_cast<int64_t>(state_->hold->leases.size());
}

std::string_view LockLease::name() const { return state_ == nullptr ? std::string_view() : state_->hold->key.name; }

LockKind LockLease::kind() const { return state_ == nullptr ? LockKind::kReentrant : state_->hold->key.kind; }

LockOwner LockLease::owner() const { return LockOwner(state_ == nullptr ? kNoOwner : state_->hold->key.owner); }

bool LockLease::degraded() const { return state_ != nullptr && state_->core->degraded(); }

absl::Status LockLease::Release() {
  if (state_ == nullptr) return OfNothing();
  return state_->core->Release(*state_);
}

void LockLease::ReleaseAsync(absl::AnyInvocable<void(absl::Status)> done) {
  if (state_ != nullptr) return state_->core->ReleaseAsync(state_, std::move(done));
  if (done) locks_internal::RunReleaseCallback(done, OfNothing());
}

void locks_internal::ReleaseWithoutWaiting(LockLease& lease) {
  if (lease.state_ != nullptr) lease.state_->release_waits = false;
}

}  // namespace stockade
