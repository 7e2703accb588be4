#ifndef STOCKADE_BENCH_LEDGER_OUR_SHOP_H_
#define STOCKADE_BENCH_LEDGER_OUR_SHOP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "harness/suite.h"
#include "ledger/order_runs.h"
#include "ledger/request_ids.h"
#include "servers/temp_dir.h"
#include "stockade/base/clock.h"
#include "stockade/base/executor.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"

namespace stockade::bench {

// An inventory with a ledger, as users have it: default options, metrics on. Open from the start.
class OurShop {
 public:
  // `clock` tells when reservations expire; it must outlive the shop.
  explicit OurShop(Clock* clock = Clock::System()) : clock_(clock) {
    Open();
    Require(inventory_->AddSku("sku", {.stock = int64_t{1} << 40}), "AddSku");
  }

  void Open() {
    auto ledger = Require(SqliteLedger::Open(path(), {.metrics = &registry_}), "SqliteLedger::Open");
    inventory_ = Require(Inventory::Create({.ledger = std::move(ledger), .clock = clock_, .metrics = &registry_}),
                         "Inventory::Create");
  }
  void Close() { inventory_ = nullptr; }
  std::string path() const { return dir_.path() + "/ours.db"; }

  void Take(const std::string& request_id) {
    Require(inventory_->Take({.sku = "sku", .request_id = request_id}).status(), "Take");
  }

  // Units of reservations that have not ended.
  int64_t Held() const { return Require(inventory_->Snapshot("sku"), "Snapshot").held; }

  // Each gives a StartOrder of orders by `ids`. What is done is called on the ledger's thread.
  StartOrder Takes(RequestIds& ids) {
    return [this, &ids](absl::AnyInvocable<void()> done) {
      inventory_->TakeAsync({.sku = "sku", .request_id = ids.Next()}, inline_,
                            [done = std::move(done)](const absl::StatusOr<Order>& order) mutable {
                              Require(order.status(), "TakeAsync");
                              done();
                            });
    };
  }
  StartOrder Reserves(RequestIds& ids, absl::Duration ttl) {
    return [this, &ids, ttl](absl::AnyInvocable<void()> done) {
      inventory_->ReserveAsync({.sku = "sku", .request_id = ids.Next(), .ttl = ttl}, inline_,
                               [done = std::move(done)](const absl::StatusOr<Reservation>& held) mutable {
                                 Require(held.status(), "ReserveAsync");
                                 done();
                               });
    };
  }
  StartOrder ReservesAndCommits(RequestIds& ids) {
    return [this, &ids](absl::AnyInvocable<void()> done) {
      inventory_->ReserveAsync({.sku = "sku", .request_id = ids.Next(), .ttl = absl::Hours(1)}, inline_,
                               [this, done = std::move(done)](const absl::StatusOr<Reservation>& held) mutable {
                                 Require(held.status(), "ReserveAsync");
                                 Commit(held->id(), std::move(done));
                               });
    };
  }

 private:
  void Commit(OrderId id, absl::AnyInvocable<void()> done) {
    inventory_->CommitAsync(id, inline_, [done = std::move(done)](const absl::Status& sold) mutable {
      Require(sold, "CommitAsync");
      done();
    });
  }

  Clock* const clock_;
  TempDir dir_;
  MetricsRegistry registry_;
  InlineExecutor inline_;
  std::unique_ptr<Inventory> inventory_;  // The last: it uses the others.
};

}  // namespace stockade::bench

#endif  // STOCKADE_BENCH_LEDGER_OUR_SHOP_H_
