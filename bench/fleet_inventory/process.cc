// One of the processes that sell the SKU "sku" of a fleet.
//
//   bench_fleet_inventory_process URL FLEET OUTSTANDING
//
// For each line "take MILLISECONDS" or "reserve MILLISECONDS": keeps OUTSTANDING orders outstanding for that time, by
// TakeAsync(), or by ReserveAsync() and CommitAsync(). Answers "PER_SECOND P50_US P99_US".
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "ledger/order_runs.h"
#include "ledger/request_ids.h"
#include "measure/require.h"
#include "stockade/base/executor.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/fleet_inventory.h"

namespace stockade::bench {
namespace {

// As users have it: default options, metrics on, but with more patience for a disk that stalls. Processes that draw the
// same UUIDs would get each other's orders, so each has a prefix of its own.
class Seller {
 public:
  Seller(std::string url, std::string fleet)
      : shop_(Require(FleetInventory::Connect(
                          {.ledger = std::move(url), .fleet = std::move(fleet), .patience = absl::Minutes(1)}),
                      "Connect")),
        prefix_(base_internal::Concat(getpid(), "-")) {}

  void Take(absl::AnyInvocable<void()> done) {
    shop_->TakeAsync({.sku = "sku", .request_id = NextId()}, inline_,
                     [done = std::move(done)](const absl::StatusOr<Order>& order) mutable {
                       Require(order.status(), "TakeAsync");
                       done();
                     });
  }

  void ReserveAndCommit(absl::AnyInvocable<void()> done) {
    shop_->ReserveAsync({.sku = "sku", .request_id = NextId(), .ttl = absl::Hours(1)}, inline_,
                        [this, done = std::move(done)](const absl::StatusOr<Reservation>& held) mutable {
                          Require(held.status(), "ReserveAsync");
                          shop_->CommitAsync(held->id(), inline_,
                                             [done = std::move(done)](const absl::Status& sold) mutable {
                                               Require(sold, "CommitAsync");
                                               done();
                                             });
                        });
  }

 private:
  std::string NextId() { return prefix_ + ids_.Next(); }

  RequestIds ids_;
  InlineExecutor inline_;
  const std::unique_ptr<Inventory> shop_;
  const std::string prefix_;
};

void Sell(Seller& seller, size_t outstanding) {
  const StartOrder take = [&](absl::AnyInvocable<void()> done) { seller.Take(std::move(done)); };
  const StartOrder reserve = [&](absl::AnyInvocable<void()> done) { seller.ReserveAndCommit(std::move(done)); };
  std::string what;
  int64_t milliseconds = 0;
  while (std::cin >> what >> milliseconds) {
    const OrderRun run = RunAsyncOrders(outstanding, absl::Milliseconds(milliseconds), what == "take" ? take : reserve);
    const auto microseconds = [&](double share) { return static_cast<double>(run.durations.Percentile(share)) / 1000; };
    std::cout << run.per_second << ' ' << microseconds(0.5) << ' ' << microseconds(0.99) << std::endl;
  }
}

}  // namespace
}  // namespace stockade::bench

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  stockade::bench::Seller seller(argv[1], argv[2]);
  stockade::bench::Sell(seller, static_cast<size_t>(std::atoll(argv[3])));
  return 0;
}
