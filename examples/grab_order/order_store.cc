#include "order_store.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace grab_order {
namespace {

// The time that a database takes to answer: long enough for other drivers to come between two statements of a driver.
constexpr absl::Duration kStatement = absl::Milliseconds(1);

}  // namespace

absl::StatusOr<OrderStore::Order*> OrderStore::Find(int64_t order, int64_t token) {
  Order& found = orders_[order];
  if (token < found.largest_token) {
    return absl::AbortedError(absl::StrCat("order ", order, " has seen a larger token than ", token));
  }
  found.largest_token = token;
  return &found;
}

absl::StatusOr<bool> OrderStore::IsOpen(int64_t order, int64_t token) {
  absl::SleepFor(kStatement);
  const std::lock_guard lock(mutex_);
  absl::StatusOr<Order*> found = Find(order, token);
  if (!found.ok()) return found.status();
  return (*found)->drivers.empty();
}

absl::Status OrderStore::Give(int64_t order, int driver, int64_t token) {
  absl::SleepFor(kStatement);
  const std::lock_guard lock(mutex_);
  absl::StatusOr<Order*> found = Find(order, token);
  if (!found.ok()) return found.status();
  (*found)->drivers.push_back(driver);
  return absl::OkStatus();
}

std::vector<int> OrderStore::DriversOf(int64_t order) const {
  const std::lock_guard lock(mutex_);
  const auto found = orders_.find(order);
  return found == orders_.end() ? std::vector<int>{} : found->second.drivers;
}

}  // namespace grab_order
