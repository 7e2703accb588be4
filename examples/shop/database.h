#ifndef STOCKADE_EXAMPLES_SHOP_DATABASE_H_
#define STOCKADE_EXAMPLES_SHOP_DATABASE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/sqlite.h"

namespace shop {

struct Product {
  std::string id;
  std::string brand;
  int64_t price;
};

// The shop's database: a table of products in SQLite, in memory. Each statement takes 2 ms besides, as over a network.
// Thread-safe.
class Database {
 public:
  static constexpr int kShoes = 100;  // "shoe-0" to "shoe-99", ten of each brand "brand-0" to "brand-9".

  // Exits where SQLite cannot be used.
  Database();

  absl::StatusOr<Product> Find(const std::string& id);
  // One query, however many ids. Ids that do not exist are left out.
  absl::StatusOr<std::vector<Product>> FindAll(const std::vector<std::string>& ids);
  absl::Status SetPrice(const std::string& id, int64_t price);
  absl::StatusOr<int64_t> Stock(const std::string& id);
  absl::Status SetStock(const std::string& id, int64_t units);

  // While it is down every statement is Unavailable.
  void set_down(bool down) { down_ = down; }
  // Reads so far.
  int64_t queries() const { return queries_; }

 private:
  absl::Status Travel() const;
  absl::Status Update(const char* sql, const std::string& id, int64_t value);

  std::mutex mutex_;
  examples::Database sqlite_;  // Guarded by mutex_.
  std::atomic<bool> down_ = false;
  std::atomic<int64_t> queries_ = 0;
};

}  // namespace shop

#endif  // STOCKADE_EXAMPLES_SHOP_DATABASE_H_
