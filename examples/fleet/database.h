#ifndef STOCKADE_EXAMPLES_FLEET_DATABASE_H_
#define STOCKADE_EXAMPLES_FLEET_DATABASE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace fleet {

inline constexpr int kMaxProcesses = 8;
inline constexpr int kMaxExpiries = 1000;
inline constexpr absl::Duration kQueryTime = absl::Milliseconds(20);
inline constexpr absl::Duration kTtl = absl::Seconds(1);
// By which a cache may round its TTL down.
inline constexpr absl::Duration kRounding = absl::Milliseconds(10);

// The report of one process of the fleet.
struct ProcessRow {
  std::atomic<int64_t> granted = 0;  // Answers of the tier: "load it, with this lease".
  std::atomic<int64_t> away = 0;     // Loads without a lease because Redis could not be asked.
  std::atomic<bool> trusted = false;
};

// A database of one product, in a file that all processes of a fleet map into their memory: a killed process leaves it
// as it is. It counts queries, and assigns each of them to an expiry, from its own clock alone:
//
// An expiry begins with a query. Once the expiry's first answer has been sent, all caches have a fresh value for kTtl,
// or should have one. So each further query that begins before that time has passed belongs to the same expiry, and is
// one that a perfect cache would have saved.
class Database {
 public:
  // An order of the parent process, for any one process of the fleet.
  enum class Order { kNone, kInvalidate, kDieInAQuery };

  // Creates the file if it does not exist. Unavailable: it cannot be created or mapped.
  static absl::StatusOr<Database> Open(const std::string& path);

  // Takes kQueryTime, and returns the price. `die`: invoked in the middle of the query if that was ordered.
  int64_t Query(const std::function<void()>& die);
  // Begins a new expiry: the next query does not belong to the present one.
  void SetPrice(int64_t price);
  void EndExpiry();

  // The number of the present expiry, from 1. 0: none has begun.
  int64_t expiry() const { return Number(tables_->expiry.load()); }
  // Whether a query of the present expiry has been answered.
  bool answered() const { return ClosesAt(tables_->expiry.load()) != 0; }
  int64_t queries(int64_t expiry) const { return tables_->queries[expiry].load(); }
  int64_t total_queries() const { return tables_->total_queries.load(); }
  int64_t price() const { return tables_->price.load(); }

  void Give(Order order) { tables_->order = order; }
  // Whether this call has taken the order.
  bool Take(Order order);
  bool taken() const { return tables_->order == Order::kNone; }

  ProcessRow& row(int process) { return tables_->rows[process]; }
  std::atomic<bool>& stop() { return tables_->stop; }

 private:
  struct Tables {
    std::atomic<int64_t> price = 100;
    // The number of the expiry, and when it ends, in milliseconds: 0 until a query of it is answered.
    std::atomic<uint64_t> expiry = 0;
    std::atomic<int64_t> total_queries = 0;
    std::atomic<int64_t> queries[kMaxExpiries] = {};
    std::atomic<Order> order = Order::kNone;
    std::atomic<bool> stop = false;
    ProcessRow rows[kMaxProcesses] = {};
  };
  static constexpr int kTimeBits = 48;
  static int64_t Number(uint64_t expiry) { return static_cast<int64_t>(expiry >> kTimeBits); }
  static uint64_t ClosesAt(uint64_t expiry) { return expiry & ((uint64_t{1} << kTimeBits) - 1); }
  static uint64_t Pack(int64_t number, uint64_t closes_at) {
    return static_cast<uint64_t>(number) << kTimeBits | closes_at;
  }

  explicit Database(Tables* tables) : tables_(tables) {}

  Tables* tables_;  // Mapped until the process ends.
};

}  // namespace fleet

#endif  // STOCKADE_EXAMPLES_FLEET_DATABASE_H_
