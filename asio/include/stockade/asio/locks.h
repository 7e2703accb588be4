#ifndef STOCKADE_ASIO_LOCKS_H_
#define STOCKADE_ASIO_LOCKS_H_

#include <stop_token>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/asio/calls.h"
#include "stockade/base/coroutine.h"
#include "stockade/base/duration.h"
#include "stockade/locks/acquire_options.h"
#include "stockade/locks/coroutine.h"
#include "stockade/locks/lock_lease.h"
#include "stockade/locks/lock_service.h"

namespace stockade {
inline namespace STOCKADE_ASIO_FLAVOR {
namespace asio_internal {

class AcquireStart {
 public:
  using Result = absl::StatusOr<LockLease>;
  static constexpr AwaitedCall kCall = {.name = "AsyncAcquire()", .unknown = ""};

  AcquireStart(LockService& service, std::string name, const AcquireOptions& options)
      : service_(&service), name_(std::move(name)), options_(options) {}

  const std::stop_token& user_stop() const { return options_.stop; }
  void Begin(std::stop_token stop, AsioAnswer<Result> answer) && {
    options_.stop = std::move(stop);
    locks_internal::AcquireInto(*service_, name_, options_, std::move(answer));
  }

 private:
  LockService* service_;
  std::string name_;
  AcquireOptions options_;
};

inline constexpr AwaitedCall kAsyncRelease = {.name = "AsyncRelease()", .unknown = ""};
using ReleaseStart = locks_internal::ReleaseStart<kAsyncRelease>;

}  // namespace asio_internal

// A lock service whose calls take a completion token of Asio:
//
//   const AsioLocks locks(io.get_executor(), service);
//   absl::StatusOr<LockLease> lease = co_await locks.AsyncAcquire("ticket", absl::Milliseconds(50), use_awaitable);
//   ...
//   const absl::Status released = co_await locks.AsyncRelease(*std::move(lease), use_awaitable);
//
// A coroutine is not an owner of its own accord. Each AsyncAcquire() without AcquireOptions::owner has a new owner, so
// two coroutines of one thread exclude each other, and a coroutine that acquires again what it holds waits for itself.
// For re-entry, pass AcquireOptions::owner: one LockOwner::New() per request, or lease.owner().
//
// A copy uses the same service. Thread-safe. The service, and the context of the executor, must exist when a call is
// made. calls.h says when handlers run.
class AsioLocks {
 public:
  // As in Asio's own objects.
  using executor_type = asio_internal::net::any_io_executor;

  // `executor` runs the handlers that have none of their own. Throws bad_executor if it is empty.
  AsioLocks(executor_type executor, LockService& service) : context_(std::move(executor)), service_(&service) {}
  // That of the constructor.
  executor_type get_executor() const noexcept { return context_.executor; }

  // LockService::AcquireAsync(), with the completion signature void(absl::StatusOr<LockLease>). The statuses are those
  // of Acquire(). In addition, at once:
  //   Cancelled  the cancellation slot of the handler was signalled, with any type, or options.stop was requested.
  // A lock that was acquired all the same is then released in the background. The destructor of a lease that this gives
  // does not wait for the engine: see LockLease::ReleaseAsync().
  template <typename Token>
  auto AsyncAcquire(std::string name, const AcquireOptions& options, Token&& token) const {
    return asio_internal::BeginCall<asio_internal::CancelledBy::kAny>(
        context_, asio_internal::AcquireStart(*service_, std::move(name), options), std::forward<Token>(token));
  }
  // With AcquireOptions::wait alone.
  template <typename Token>
  auto AsyncAcquire(std::string name, Duration wait, Token&& token) const {
    AcquireOptions options;
    options.wait = wait;
    return AsyncAcquire(std::move(name), options, std::forward<Token>(token));
  }
  // g++ 12 destroys an aggregate twice that is made within a co_await expression, so the options need a name.
  template <typename Token>
  void AsyncAcquire(std::string name, const AcquireOptions&& options, Token&& token) const = delete;

  // LockLease::ReleaseAsync(), with the completion signature void(absl::Status): that of Release(). Ignores
  // cancellations. The release also takes place if the handler is destroyed.
  template <typename Token>
  auto AsyncRelease(LockLease lease, Token&& token) const {
    return asio_internal::BeginCall<asio_internal::CancelledBy::kNone>(
        context_, asio_internal::ReleaseStart(std::move(lease)), std::forward<Token>(token));
  }

 private:
  asio_internal::AsioContext context_;
  LockService* service_;
};

}  // namespace STOCKADE_ASIO_FLAVOR
}  // namespace stockade

#endif  // STOCKADE_ASIO_LOCKS_H_
