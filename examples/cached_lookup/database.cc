#include "database.h"

#include <chrono>
#include <string>
#include <thread>

namespace cached_lookup {

Database::Database() {
  for (int id = 0; id < kProducts; ++id) products_[id] = {.id = id, .brand = id / 10, .price = 100};
}

absl::Status Database::Query() {
  ++queries_;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return down_ ? absl::UnavailableError("the database is down") : absl::OkStatus();
}

absl::StatusOr<Product> Database::Find(int id) {
  if (absl::Status queried = Query(); !queried.ok()) return queried;
  const std::lock_guard lock(mutex_);
  const auto found = products_.find(id);
  if (found == products_.end()) return absl::NotFoundError("no product " + std::to_string(id));
  return found->second;
}

absl::StatusOr<std::vector<Product>> Database::FindAll(const std::vector<int>& ids) {
  if (absl::Status queried = Query(); !queried.ok()) return queried;
  std::vector<Product> rows;
  const std::lock_guard lock(mutex_);
  for (const int id : ids) {
    if (const auto found = products_.find(id); found != products_.end()) rows.push_back(found->second);
  }
  return rows;
}

absl::Status Database::SetPrice(int id, int price) {
  const std::lock_guard lock(mutex_);
  const auto found = products_.find(id);
  if (found == products_.end()) return absl::NotFoundError("no product " + std::to_string(id));
  found->second.price = price;
  return absl::OkStatus();
}

}  // namespace cached_lookup
