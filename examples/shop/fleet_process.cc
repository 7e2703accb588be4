#include "fleet_process.h"

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "stockade/locks/connect_lock_service.h"
#include "visitors.h"
#include "warehouse.h"

namespace shop {
namespace {

constexpr int kBuyers = 1000;
constexpr int64_t kAllotment = 50;
constexpr int64_t kPausedAfter = 3;  // Boxes.

void Say(const FleetPlan& plan, const std::string& what) {
  std::printf("process %d %s\n", plan.number, what.c_str());
  std::fflush(stdout);
}

// Books the boxes that are not booked yet. Not OK: the lock was lost meanwhile; somebody else goes on, or we try again.
absl::Status BookDelivery(const FleetPlan& plan, stockade::LockService& locks, Warehouse& warehouse) {
  absl::StatusOr<stockade::LockLease> held = locks.Acquire(plan.lock_name);
  if (!held.ok()) return held.status();
  const absl::StatusOr<int64_t> token = held->fencing_token();
  if (!token.ok()) return token.status();

  const absl::StatusOr<int64_t> found = warehouse.BoxesBooked(*token);
  if (!found.ok()) return found.status();
  int64_t booked = *found;
  while (booked < kBoxes && !held->lost().stop_requested()) {
    if (plan.fate == Fate::kPausedInTheJob && booked == kPausedAfter) {
      Say(plan, absl::StrCat("has booked boxes 1 to ", booked, ", and is paused past its lease"));
      raise(SIGSTOP);
    }
    if (absl::Status written = warehouse.BookBox(*token); !written.ok()) return written;
    ++booked;
  }
  if (booked > *found) Say(plan, absl::StrCat("has booked boxes ", *found + 1, " to ", booked));
  return held->Release();  // FailedPrecondition: it was lost.
}

void BookDeliveryWithTheOthers(const FleetPlan& plan, Warehouse& warehouse) {
  // Renewed as long as we live, and free 2 s after we do not.
  const std::unique_ptr<stockade::LockService> locks =
      OrExit(stockade::ConnectLockService(plan.locks, {.name = "shop", .watchdog_lease = absl::Seconds(2)}));
  for (;;) {
    const absl::Status booked = BookDelivery(plan, *locks, warehouse);
    if (booked.ok()) return;
    if (!absl::IsAborted(booked) && !absl::IsFailedPrecondition(booked)) OrExit(booked);
    if (absl::IsAborted(booked)) Say(plan, "goes on, and its write is refused: its fencing token is old");
  }
}

// The part of the stock that one process sells.
class Counter {
 public:
  Counter(const FleetPlan& plan, Warehouse* warehouse)
      : plan_(plan), warehouse_(warehouse), stock_({.name = "shop", .ledger = OpenLedger(plan)}) {
    const absl::Status added = stock_.AddSku("shoe-1", {});
    if (!absl::IsAlreadyExists(added)) OrExit(added);
    const int64_t found = TakeIn(OrExit(warehouse_->Allotted(plan_.number)));
    if (found > 0) Say(plan_, absl::StrCat("finds ", found, " pairs allotted that are not in its ledger"));
    Refill();
  }

  // False: sold out.
  bool Sell(const std::string& buyer) {
    for (;;) {
      const absl::StatusOr<stockade::Order> sold = stock_.Take({.sku = "shoe-1", .request_id = buyer, .buyer = buyer});
      if (sold.ok()) return true;
      const auto refusal = stockade::RefusalOf(sold.status());
      if (refusal == stockade::Refusal::kAllHeld) {  // For orders that are being written: they may fail.
        absl::SleepFor(absl::Milliseconds(1));
        continue;
      }
      if (refusal != stockade::Refusal::kSoldOut) OrExit(sold.status());
      if (!Refill()) return false;
    }
  }

 private:
  static std::unique_ptr<stockade::Ledger> OpenLedger(const FleetPlan& plan) {
    return OrExit(stockade::SqliteLedger::Open(plan.ledger()));
  }

  // Gets pairs from the warehouse. False: it is empty.
  bool Refill() {
    const std::lock_guard lock(refilling_);
    if (OrExit(stock_.Available("shoe-1")) > 0) return true;  // Another thread was here before.
    const int64_t allotted = OrExit(warehouse_->Allot(plan_.number, kAllotment));
    if (plan_.fate == Fate::kKilledWithAnAllotment) {
      Say(plan_, absl::StrCat("is killed with ", allotted, " pairs in hand"));
      raise(SIGKILL);
    }
    return TakeIn(allotted) > 0;
  }

  // The warehouse says what was allotted in all, the ledger what of it has come: the rest comes now. So nothing is lost
  // where we are killed between the two, nor comes twice.
  int64_t TakeIn(int64_t allotted) {
    const int64_t missing = allotted - OrExit(stock_.Figures("shoe-1")).granted;
    if (missing > 0) OrExit(stock_.Restock("shoe-1", missing));
    return missing;
  }

  const FleetPlan plan_;
  Warehouse* const warehouse_;
  std::mutex refilling_;
  stockade::Inventory stock_;
};

void SellToAll(const FleetPlan& plan, Counter& counter) {
  std::mutex mutex;
  std::ofstream told(plan.told(), std::ios::app);  // Guarded by mutex.
  std::atomic<int> next = 0;
  AtOnce(4, [&](int) {
    for (int number = next++; number < kBuyers; number = next++) {
      const std::string buyer = absl::StrCat("buyer-", plan.number, "-", number);
      if (!counter.Sell(buyer)) continue;
      const std::lock_guard lock(mutex);
      told << buyer << '\n';
    }
  });
}

}  // namespace

void RunFleetProcess(const FleetPlan& plan) {
  const std::unique_ptr<Warehouse> warehouse = OrExit(Warehouse::Open(plan.warehouse()));
  BookDeliveryWithTheOthers(plan, *warehouse);
  Counter counter(plan, warehouse.get());
  while (!OrExit(warehouse->SaleIsOpen())) absl::SleepFor(absl::Milliseconds(5));
  SellToAll(plan, counter);
}

}  // namespace shop
