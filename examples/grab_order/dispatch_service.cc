#include "dispatch_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace grab_order {

DispatchService::DispatchService(std::unique_ptr<stockade::LockService> locks, std::string place, OrderStore* store)
    : locks_(std::move(locks)), place_(std::move(place)), store_(store) {}

absl::StatusOr<bool> DispatchService::Grab(int64_t order, int driver) {
  // One lock per order, so drivers of different orders do not contend. No wait: the second driver is too late anyway.
  absl::StatusOr<stockade::LockLease> lease =
      locks_->Acquire(absl::StrCat(place_, ":", order), {.wait = absl::ZeroDuration()});
  if (absl::IsDeadlineExceeded(lease.status())) return false;
  if (!lease.ok()) return lease.status();
  absl::StatusOr<int64_t> token = lease->fencing_token();
  if (!token.ok()) return token.status();

  absl::StatusOr<bool> grabbed = GiveIfOpen(order, driver, *token);

  // The result stands even if the release fails: the order is given, and the lock expires with its lease.
  (void)lease->Release();
  return grabbed;
}

absl::StatusOr<bool> DispatchService::GiveIfOpen(int64_t order, int driver, int64_t token) {
  absl::StatusOr<bool> open = store_->IsOpen(order, token);
  absl::Status given = open.status();
  if (open.ok() && *open) given = store_->Give(order, driver, token);
  // We were so slow that the lock is somebody else's by now, and the store knows it.
  if (absl::IsAborted(given)) return false;
  if (!given.ok()) return given;
  return *open;
}

}  // namespace grab_order
