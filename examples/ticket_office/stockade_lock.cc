#include <optional>
#include <utility>

#include "seller_lock.h"
#include "stockade/locks/connect_lock_service.h"

namespace ticket_office {
namespace {

constexpr absl::Duration kLease = absl::Seconds(1);
constexpr absl::Duration kPatience = absl::Seconds(30);

class StockadeLock : public SellerLock {
 public:
  StockadeLock(std::unique_ptr<stockade::LockService> locks, TicketStore* store)
      : locks_(std::move(locks)), store_(store) {}

  absl::StatusOr<bool> Enter() override {
    absl::StatusOr<stockade::LockLease> lease = locks_->Acquire(store_->lock_key(), {.wait = kPatience});
    if (absl::IsDeadlineExceeded(lease.status())) return false;
    if (!lease.ok()) return lease.status();
    absl::StatusOr<int64_t> token = lease->fencing_token();
    if (!token.ok()) return token.status();
    lease_ = *std::move(lease);
    token_ = *token;
    return true;
  }

  std::optional<int64_t> fencing_token() const override { return token_; }

  absl::Status Leave() override {
    token_.reset();
    absl::Status released = lease_.Release();
    if (!absl::IsFailedPrecondition(released)) return released;
    return store_->Add(Note::kLossTold);
  }

 private:
  const std::unique_ptr<stockade::LockService> locks_;
  TicketStore* const store_;
  stockade::LockLease lease_;
  std::optional<int64_t> token_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<stockade::LockService>> ConnectLocks(const std::string& url) {
  return stockade::ConnectLockService(url, {.name = "ticket_office", .watchdog_lease = kLease, .metrics = nullptr});
}

std::unique_ptr<SellerLock> NewStockadeLock(std::unique_ptr<stockade::LockService> locks, TicketStore* store) {
  return std::make_unique<StockadeLock>(std::move(locks), store);
}

}  // namespace ticket_office
