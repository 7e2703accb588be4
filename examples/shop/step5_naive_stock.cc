// Step 5: the shop sells, as it is written first: read the stock, subtract, write it back.

#include <atomic>
#include <cstdio>

#include "absl/status/statusor.h"
#include "database.h"
#include "visitors.h"

namespace {

absl::StatusOr<bool> Buy(shop::Database& db) {
  const absl::StatusOr<int64_t> left = db.Stock("shoe-1");
  if (!left.ok()) return left.status();
  if (*left == 0) return false;
  const absl::Status written = db.SetStock("shoe-1", *left - 1);  // Overwrites what others have written since.
  if (!written.ok()) return written;
  return true;
}

}  // namespace

int main() {
  shop::Database db;
  shop::OrExit(db.SetStock("shoe-1", 10));

  std::atomic<int> orders = 0;
  shop::AtOnce(100, [&](int) {
    if (shop::OrExit(Buy(db))) ++orders;
  });
  std::printf("stock 10, 100 buyers at once: ~%d orders\n", orders.load());
  std::printf("the database says: ~%d left\n", static_cast<int>(shop::OrExit(db.Stock("shoe-1"))));

  // The answer is lost on the way, and the buyer's browser sends the order again.
  shop::OrExit(db.SetStock("shoe-1", 10));
  int sent_twice = 0;
  for (int attempt = 0; attempt < 2; ++attempt) sent_twice += shop::OrExit(Buy(db));
  std::printf("one order sent twice: %d orders\n", sent_twice);
}
