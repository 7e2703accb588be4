#ifndef STOCKADE_EXAMPLES_SHOP_WAREHOUSE_H_
#define STOCKADE_EXAMPLES_SHOP_WAREHOUSE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mariadb_client.h"

namespace shop {

inline constexpr int64_t kBoxes = 10;  // Of a delivery.
inline constexpr int64_t kPairsInABox = 100;
inline constexpr int64_t kNoPrice = 0;

// The steps that the processes of the fleet take together.
enum class Phase { kDelivery, kVisits, kNewPrice, kSale };

// The tables of the shop itself in the database that all processes of the fleet share. Thread-safe.
class Warehouse {
 public:
  // Makes the tables if there are none. `socket` is MariaDB's.
  static absl::StatusOr<std::unique_ptr<Warehouse>> Open(const std::string& socket);

  // The two statements of the job that books a delivery box by box. They do not check whether another process does the
  // same: the lock prevents that. Aborted, and nothing has changed: `token` is older than one that was seen here, so
  // another process has the lock by now.
  absl::StatusOr<int64_t> BoxesBooked(int64_t token);
  absl::Status BookBox(int64_t token);

  // The price of the shoe. Each call is counted as a query.
  absl::StatusOr<int64_t> Price();
  absl::Status SetPrice(int64_t price);
  // The same under a lock. Aborted, as above: `token` is too old.
  absl::Status SetPrice(int64_t price, int64_t token);
  absl::StatusOr<int64_t> Queries();

  // The process shows this price to its visitors. kNoPrice: it has done its part of the job, and has no visitors yet.
  absl::Status Show(int64_t process, int64_t price);
  absl::StatusOr<int64_t> ProcessesThatShow(int64_t price);

  absl::StatusOr<int64_t> BoxesBooked();
  absl::Status Begin(Phase phase);
  absl::StatusOr<bool> HasBegun(Phase phase);
  // The only number that the statement returns.
  absl::StatusOr<int64_t> Number(std::string_view sql);

 private:
  explicit Warehouse(std::unique_ptr<examples::MariaDbClient> client) : client_(std::move(client)) {}
  absl::Status Run(std::string_view sql);

  std::mutex mutex_;
  const std::unique_ptr<examples::MariaDbClient> client_;  // Guarded by mutex_.
};

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_WAREHOUSE_H_
