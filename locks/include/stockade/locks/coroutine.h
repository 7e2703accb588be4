#ifndef STOCKADE_LOCKS_COROUTINE_H_
#define STOCKADE_LOCKS_COROUTINE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/base/coroutine.h"
#include "stockade/locks/lock_lease.h"
#include "stockade/locks/lock_service.h"

// Locks for coroutines:
//
//   const AcquireOptions brief = {.wait = absl::Milliseconds(50)};
//   absl::StatusOr<LockLease> lease = co_await AcquireAwait(locks, "ticket", brief, on);
//   if (!lease.ok()) co_return lease.status();
//   ...
//   const absl::Status released = co_await ReleaseAwait(*std::move(lease), on);
//
// A coroutine is not an owner of its own accord. Each AcquireAwait() without AcquireOptions::owner has a new owner, so
// two coroutines of one thread exclude each other, and a coroutine that acquires again what it holds waits for itself.
// For re-entry, pass AcquireOptions::owner: one LockOwner::New() per request, or lease.owner().
namespace stockade {
namespace locks_internal {

// For AcquireAwait() and AsyncAcquire().
template <typename Answer>
void AcquireInto(LockService& service, const std::string& name, const AcquireOptions& options, Answer answer) {
  service.AcquireAsync(name, options, [answer = std::move(answer)](absl::StatusOr<LockLease> lease) mutable {
    // Nobody may wait for it any more, and then it ends on a thread that must not wait for the
    // engine.
    if (lease.ok()) ReleaseWithoutWaiting(*lease);
    answer(std::move(lease));
  });
}

class AcquireStart {
 public:
  using Result = absl::StatusOr<LockLease>;
  static constexpr AwaitedCall kCall = {.name = "AcquireAwait()", .unknown = ""};

  AcquireStart(LockService& service, std::string name, const AcquireOptions& options)
      : service_(&service), name_(std::move(name)), options_(options) {}

  void Begin(std::stop_token stop, AnswerAwaiter<Result> answer) && {
    if (options_.stop.stop_possible()) {
      return answer(absl::InvalidArgumentError("AcquireAwait(): AcquireOptions::stop must be AwaitOn::stop instead"));
    }
    options_.stop = std::move(stop);
    AcquireInto(*service_, name_, options_, std::move(answer));
  }

 private:
  LockService* service_;
  std::string name_;
  AcquireOptions options_;
};

// `Call`: for messages.
template <const AwaitedCall& Call>
class ReleaseStart {
 public:
  using Result = absl::Status;
  static constexpr AwaitedCall kCall = Call;

  explicit ReleaseStart(LockLease lease) : lease_(std::move(lease)) { ReleaseWithoutWaiting(lease_); }

  template <typename Answer>
  void Begin(const std::stop_token&, Answer answer) && {
    lease_.ReleaseAsync(std::move(answer));
  }

 private:
  LockLease lease_;
};

inline constexpr AwaitedCall kReleaseAwait = {.name = "ReleaseAwait()", .unknown = ""};
using AwaitedRelease = ReleaseStart<kReleaseAwait>;

}  // namespace locks_internal

// LockService::AcquireAsync() for co_await, which returns absl::StatusOr<LockLease>. The call begins when it is
// awaited; `service` must exist until then. The statuses are those of Acquire(). In addition, at once:
//   Cancelled         on.stop was requested.
//   DeadlineExceeded  on.deadline passed.
// A lock that was acquired all the same is then released in the background, and so it is if the coroutine is destroyed
// while it waits. The destructor of a lease that this returns does not wait for the engine: see
// LockLease::ReleaseAsync().
//
// g++ 12 destroys an aggregate twice that is made within a co_await expression, so the options need a name of their
// own: temporaries do not compile.
inline base_internal::LazyAwaiter<locks_internal::AcquireStart> AcquireAwait(LockService& service, std::string name,
                                                                             const AcquireOptions& options,
                                                                             const AwaitOn& on) {
  return {locks_internal::AcquireStart(service, std::move(name), options), on};
}
void AcquireAwait(LockService& service, std::string name, const AcquireOptions&& options, const AwaitOn& on) = delete;
inline base_internal::LazyAwaiter<locks_internal::AcquireStart> AcquireAwait(LockService& service, std::string name,
                                                                             const AwaitOn& on) {
  return {locks_internal::AcquireStart(service, std::move(name), AcquireOptions()), on};
}
// With AcquireOptions::wait alone.
inline base_internal::LazyAwaiter<locks_internal::AcquireStart> AcquireAwait(LockService& service, std::string name,
                                                                             Duration wait, const AwaitOn& on) {
  AcquireOptions options;
  options.wait = wait;
  return {locks_internal::AcquireStart(service, std::move(name), options), on};
}

// LockLease::ReleaseAsync() for co_await, which returns absl::Status: that of Release(). Ignores on.stop and
// on.deadline. The release also takes place if the coroutine is destroyed meanwhile, or if this is never awaited.
inline base_internal::LazyAwaiter<locks_internal::AwaitedRelease> ReleaseAwait(LockLease lease, const AwaitOn& on) {
  return {locks_internal::AwaitedRelease(std::move(lease)), AwaitOn(on.executor)};
}

}  // namespace stockade

#endif  // STOCKADE_LOCKS_COROUTINE_H_
