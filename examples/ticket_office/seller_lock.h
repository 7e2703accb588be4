#ifndef STOCKADE_EXAMPLES_TICKET_OFFICE_SELLER_LOCK_H_
#define STOCKADE_EXAMPLES_TICKET_OFFICE_SELLER_LOCK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stockade/locks/lock_service.h"
#include "stockade/redis/redis_client.h"
#include "ticket_store.h"

namespace ticket_office {

// The steps of a seller before it looks at the tickets, and after its sale.
class SellerLock {
 public:
  virtual ~SellerLock() = default;

  // Blocks. False: others had it for so long that the seller gives up.
  virtual absl::StatusOr<bool> Enter() = 0;
  // Between Enter() and Leave(), if the lock has tokens.
  virtual std::optional<int64_t> fencing_token() const { return std::nullopt; }
  virtual absl::Status Leave() = 0;
};

// (a)
std::unique_ptr<SellerLock> NewNoLock();

// As people write it themselves, SET NX of their name.
struct SetNxOptions {
  absl::Duration expiry = absl::InfiniteDuration();
  bool looks_whose_it_is = true;  // Before it deletes it.
  absl::Duration patience = absl::Seconds(30);
};
std::unique_ptr<SellerLock> NewSetNxLock(stockade::RedisClient* redis, TicketStore* store, SetNxOptions options);

// Any of Stockade's, of the engine that the URL names.
absl::StatusOr<std::unique_ptr<stockade::LockService>> ConnectLocks(const std::string& url);
std::unique_ptr<SellerLock> NewStockadeLock(std::unique_ptr<stockade::LockService> locks, TicketStore* store);

}  // namespace ticket_office

#endif  // STOCKADE_EXAMPLES_TICKET_OFFICE_SELLER_LOCK_H_
