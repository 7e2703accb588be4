#ifndef STOCKADE_EXAMPLES_CACHED_LOOKUP_DATABASE_H_
#define STOCKADE_EXAMPLES_CACHED_LOOKUP_DATABASE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "product.h"

namespace cached_lookup {

// The table of products. Each query takes 2 ms, as over a network. Thread-safe.
class Database {
 public:
  static constexpr int kProducts = 100;  // Ids from 0; ten of each brand.

  Database();

  absl::StatusOr<Product> Find(int id);
  // SELECT ... WHERE id IN (...): one query, however many ids. Ids that do not exist are left out.
  absl::StatusOr<std::vector<Product>> FindAll(const std::vector<int>& ids);
  absl::Status SetPrice(int id, int price);

  // What it answers while it is down: Unavailable.
  void set_down(bool down) { down_ = down; }
  // Reads so far.
  int64_t queries() const { return queries_; }

 private:
  absl::Status Query();

  std::mutex mutex_;
  std::unordered_map<int, Product> products_;  // Guarded by mutex_.
  std::atomic<bool> down_{false};
  std::atomic<int64_t> queries_{0};
};

}  // namespace cached_lookup

#endif  // STOCKADE_EXAMPLES_CACHED_LOOKUP_DATABASE_H_
