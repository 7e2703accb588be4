#ifndef STOCKADE_EXAMPLES_TICKET_OFFICE_TICKET_STORE_H_
#define STOCKADE_EXAMPLES_TICKET_OFFICE_TICKET_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "stockade/redis/redis_client.h"

namespace ticket_office {

// Events that sellers note for the report.
enum class Note { kLockedOut, kDeletedAnothersLock, kWriteRefused, kLossTold };

// The result of a scenario.
struct Figures {
  int64_t sold = 0;
  int64_t sold_again = 0;   // Of them, those of a ticket that had been sold.
  int64_t never_sold = 0;   // Tickets.
  int64_t locked_out = 0;   // Sellers that gave up waiting.
  int64_t deleted = 0;      // Locks of others that were deleted.
  int64_t refused = 0;      // Writes with an older token than the store had seen.
  int64_t losses_told = 0;  // Releases that reported that the lock had been lost.

  int64_t wrong() const { return sold_again + never_sold + deleted; }
};

// The tickets of one scenario: how many are left, a plain number, and which have been sold, ticket N first. Its keys
// begin with `place`, which has a {tag} so that a cluster keeps them together.
class TicketStore {
 public:
  TicketStore(stockade::RedisClient* redis, std::string place);

  absl::Status Open(int64_t tickets);
  // With all locks of the scenario.
  absl::Status Close();

  // With a fencing token the store takes part in the lock: it refuses (Aborted) callers whose token is smaller than the
  // largest that it has seen. Reading shows the token too. Otherwise an older holder could write between the read and
  // the write of a newer one, and the newer one would overwrite that.
  absl::StatusOr<int64_t> Left(std::optional<int64_t> token);
  // Writes `left` - 1, and notes ticket `left` as sold.
  absl::Status Sell(int64_t left, std::optional<int64_t> token);

  absl::Status Add(Note note);
  absl::StatusOr<Figures> Count(int64_t tickets);

  // For lock keys of the scenario.
  const std::string& place() const { return place_; }
  std::string lock_key() const { return place_ + ":lock"; }

 private:
  absl::Status Run(const stockade::RedisCommand& command);

  stockade::RedisClient* const redis_;
  const std::string place_;
  const std::string left_;
  const std::string sold_;
  const std::string token_;  // The largest that was seen.
  const std::string notes_;
};

}  // namespace ticket_office

#endif  // STOCKADE_EXAMPLES_TICKET_OFFICE_TICKET_STORE_H_
