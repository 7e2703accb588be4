#ifndef STOCKADE_EXAMPLES_SHOP_WAREHOUSE_H_
#define STOCKADE_EXAMPLES_SHOP_WAREHOUSE_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sqlite.h"

namespace shop {

inline constexpr int64_t kBoxes = 10;  // Of a delivery.
inline constexpr int64_t kPairsInABox = 100;

// The database that all processes of the fleet share: what is in the warehouse, what of it each process was allotted,
// and how much of today's delivery is booked. A SQLite file, in the place of a server. Thread-safe.
class Warehouse {
 public:
  static absl::StatusOr<std::unique_ptr<Warehouse>> Open(const std::string& path);

  // The two statements of the job that books a delivery box by box. They do not check whether another process does the
  // same: the lock prevents that. Aborted, and nothing has changed: `token` is older than one that was seen here, so
  // another process has the lock by now.
  absl::StatusOr<int64_t> BoxesBooked(int64_t token);
  absl::Status BookBox(int64_t token);

  // Moves `pairs`, or as many as there are, from the warehouse to the process. Returns the process's total so far.
  absl::StatusOr<int64_t> Allot(int64_t process, int64_t pairs);
  absl::StatusOr<int64_t> Allotted(int64_t process);

  // For observers.
  absl::StatusOr<int64_t> BoxesBooked();
  absl::Status OpenSale();
  absl::StatusOr<bool> SaleIsOpen();

 private:
  explicit Warehouse(examples::Database sqlite) : sqlite_(std::move(sqlite)) {}

  absl::Status InTransaction(const std::function<absl::Status()>& statements);
  // These under mutex_.
  absl::Status Fence(int64_t token);
  absl::Status Run(const char* sql, std::initializer_list<int64_t> values = {});
  absl::StatusOr<int64_t> Number(const char* sql, std::initializer_list<int64_t> values = {});

  std::mutex mutex_;
  examples::Database sqlite_;  // Guarded by mutex_.
};

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_WAREHOUSE_H_
