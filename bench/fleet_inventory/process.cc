// One of the processes that sell the SKU "sku" of a fleet.
//
//   bench_fleet_inventory_process URL FLEET OUTSTANDING [REDIS_URL]...
//
// For each line "take MILLISECONDS" or "reserve MILLISECONDS": keeps OUTSTANDING orders outstanding for that time, by
// TakeAsync(), or by ReserveAsync() and CommitAsync(). Answers "PER_SECOND P50_US P99_US".
//
// For a line "drain 0": takes units, one after the other in OUTSTANDING threads, until requests are refused without the
// ledger. Answers "LAST_UNIT_NS LEASE_NS": when it got its last unit, and when the first refusal by a lease came; by a
// clock that all processes share.
#include <prometheus/metric_family.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ledger/order_runs.h"
#include "ledger/request_ids.h"
#include "measure/require.h"
#include "stockade/base/executor.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

// As users have it: default options, metrics on, but with more patience for a disk that stalls. Processes that draw the
// same UUIDs would get each other's orders, so each has a prefix of its own.
class Seller {
 public:
  Seller(std::string url, std::string fleet, std::vector<std::string> redis)
      : shop_(Require(FleetInventory::Connect({.ledger = std::move(url),
                                               .fleet = std::move(fleet),
                                               .patience = absl::Minutes(1),
                                               .redis = std::move(redis),
                                               .metrics = &registry_}),
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

  // Whether it got a unit.
  bool TakeOne(const std::string& id) {
    const absl::StatusOr<Order> order = shop_->Take({.sku = "sku", .request_id = id});
    if (order.ok() || RefusalOf(order.status()) == Refusal::kSoldOut) return order.ok();
    Require(order.status(), "Take");
    return false;
  }
  int64_t RefusedByLease() const {
    for (const prometheus::MetricFamily& family : registry_.Collect()) {
      if (family.name != "stockade_inventory_fleet_refusals_total") continue;
      for (const prometheus::ClientMetric& metric : family.metric) {
        for (const auto& label : metric.label) {
          if (label.value == "lease") return static_cast<int64_t>(metric.counter.value);
        }
      }
    }
    return 0;
  }
  std::string Prefix() const { return prefix_; }

 private:
  std::string NextId() { return prefix_ + ids_.Next(); }

  MetricsRegistry registry_;
  RequestIds ids_;
  InlineExecutor inline_;
  const std::unique_ptr<Inventory> shop_;
  const std::string prefix_;
};

int64_t SharedNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

void Drain(Seller& seller, size_t threads) {
  std::atomic<int64_t> last_unit = 0;
  {
    std::vector<std::jthread> takers;
    for (size_t i = 0; i < threads; ++i) {
      takers.emplace_back([&, i] {
        for (int64_t n = 0; seller.TakeOne(base_internal::Concat(seller.Prefix(), i, "-", n)); ++n) {
          int64_t known = last_unit;
          const int64_t now = SharedNow();
          while (known < now && !last_unit.compare_exchange_weak(known, now)) {
          }
        }
      });
    }
  }
  for (int64_t n = 0; seller.RefusedByLease() == 0; ++n) {
    seller.TakeOne(base_internal::Concat(seller.Prefix(), "late-", n));
  }
  std::cout << last_unit << ' ' << SharedNow() << std::endl;
}

void Sell(Seller& seller, size_t outstanding) {
  const StartOrder take = [&](absl::AnyInvocable<void()> done) { seller.Take(std::move(done)); };
  const StartOrder reserve = [&](absl::AnyInvocable<void()> done) { seller.ReserveAndCommit(std::move(done)); };
  std::string what;
  int64_t milliseconds = 0;
  while (std::cin >> what >> milliseconds) {
    if (what == "drain") {
      Drain(seller, outstanding);
      continue;
    }
    const OrderRun run = RunAsyncOrders(outstanding, absl::Milliseconds(milliseconds), what == "take" ? take : reserve);
    const auto microseconds = [&](double share) { return static_cast<double>(run.durations.Percentile(share)) / 1000; };
    std::cout << run.per_second << ' ' << microseconds(0.5) << ' ' << microseconds(0.99) << std::endl;
  }
}

}  // namespace
}  // namespace stockade::bench

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  stockade::bench::Seller seller(argv[1], argv[2], {argv + 4, argv + argc});
  stockade::bench::Sell(seller, static_cast<size_t>(std::atoll(argv[3])));
  return 0;
}
