#ifndef STOCKADE_TESTS_INVENTORY_FLEET_FLEET_TEST_H_
#define STOCKADE_TESTS_INVENTORY_FLEET_FLEET_TEST_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inventory/fleet/fleet_audit.h"
#include "mysql/support/mariadb_server.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/fleet_inventory.h"
#include "support/run_threads.h"

namespace stockade::testing {

// What a server must promise to a fleet. It does not keep it: what it writes is in the kernel's hands, which outlives
// the server, and a busy disk must not decide how long a test takes.
inline std::vector<std::string> FleetServerFlags() {
  return {"--log-bin=binlog", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1",
          "--server-id=1",    "--debug-no-sync", "--innodb-flush-method=nosync"};
}

// Tests over one server, each with a fleet of its own.
class FleetTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { StartServer({}); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  void SetUp() override {
    STOCKADE_NEEDS_MARIADB();
    static int fleets = 0;
    fleet_ = base_internal::Concat("fleet", ++fleets);
    const absl::Status migrated = FleetInventory::Migrate(Options());
    ASSERT_TRUE(migrated.ok()) << migrated;
  }
  void TearDown() override {
    if (server_ == nullptr || fleet_.empty() || tables_are_damaged_) return;
    for (const std::string& problem : Audit()) ADD_FAILURE() << problem;
  }

  // In SetUpTestSuite(). With what a fleet needs besides.
  static void StartServer(MariaDbServerOptions options) {
    STOCKADE_NEEDS_MARIADB();
    const std::vector<std::string> needed = FleetServerFlags();
    options.flags.insert(options.flags.begin(), needed.begin(), needed.end());
    server_ = new MariaDbServer(std::move(options));
  }
  static MariaDbServer& server() { return *server_; }
  const std::string& fleet() const { return fleet_; }
  FleetInventoryOptions Options() const {
    return {.ledger = server_->url(),
            .fleet = fleet_,
            .patience = absl::Minutes(5),
            // Units that come back are for sale at once.
            .refusal_lease = absl::ZeroDuration(),
            .metrics = nullptr};
  }
  // Another process, in what it shares with others.
  std::unique_ptr<Inventory> Connect() const { return Connect(Options()); }
  static std::unique_ptr<Inventory> Connect(FleetInventoryOptions options) {
    absl::StatusOr<std::unique_ptr<Inventory>> shop = FleetInventory::Connect(std::move(options));
    EXPECT_TRUE(shop.ok()) << shop.status();
    return *std::move(shop);
  }
  // Threads of two processes take 4,000 times a unit of "sneaker". Returns how many they got; all others were refused
  // as sold out.
  static int SoldByThreads(Inventory& one, Inventory& two) {
    std::atomic<int> sold = 0;
    RunThreads(8, [&](int thread) {
      Inventory& shop = thread % 2 == 0 ? one : two;
      for (int i = 0; i < 10; ++i) {
        std::vector<TakeRequest> requests;
        for (int k = 0; k < 50; ++k) {
          requests.push_back({.sku = "sneaker", .request_id = base_internal::Concat(thread, ".", i, ".", k)});
        }
        for (const auto& order : shop.TakeMany(requests)) {
          if (order.ok()) {
            ++sold;
          } else {
            EXPECT_EQ(RefusalOf(order.status()), Refusal::kSoldOut) << order.status();
          }
        }
      }
    });
    return sold;
  }
  // A table of this fleet.
  std::string Table(std::string_view name) const { return base_internal::Concat("test.", fleet_, "_", name); }
  // What is wrong in the tables; empty if nothing is.
  std::vector<std::string> Audit() const {
    std::vector<std::string> problems;
    for (const FleetFinding& found : AuditFleet(server(), "test." + fleet_)) {
      problems.push_back(base_internal::Concat(found.statement, ": ", found.row));
    }
    return problems;
  }

  // The test has damaged the tables, so the audit at its end is left out.
  bool tables_are_damaged_ = false;

 private:
  static inline MariaDbServer* server_ = nullptr;
  std::string fleet_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FLEET_FLEET_TEST_H_
