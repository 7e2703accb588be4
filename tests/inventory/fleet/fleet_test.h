#ifndef STOCKADE_TESTS_INVENTORY_FLEET_FLEET_TEST_H_
#define STOCKADE_TESTS_INVENTORY_FLEET_FLEET_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mysql/support/mariadb_server.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/fleet_inventory.h"

namespace stockade::testing {

// What a server must promise to a fleet.
inline std::vector<std::string> FleetServerFlags() {
  return {"--log-bin=binlog", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1", "--server-id=1"};
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
    return {.ledger = server_->url(), .fleet = fleet_, .patience = absl::Minutes(5), .metrics = nullptr};
  }
  // Another process, in what it shares with others.
  std::unique_ptr<Inventory> Connect() const { return Connect(Options()); }
  static std::unique_ptr<Inventory> Connect(FleetInventoryOptions options) {
    absl::StatusOr<std::unique_ptr<Inventory>> shop = FleetInventory::Connect(std::move(options));
    EXPECT_TRUE(shop.ok()) << shop.status();
    return *std::move(shop);
  }
  // A table of this fleet.
  std::string Table(std::string_view name) const { return base_internal::Concat("test.", fleet_, "_", name); }
  // What is wrong in the tables; empty if nothing is.
  std::vector<std::string> Audit() const;

  // The test has damaged the tables, so the audit at its end is left out.
  bool tables_are_damaged_ = false;

 private:
  static inline MariaDbServer* server_ = nullptr;
  std::string fleet_;
};

inline std::vector<std::string> FleetTest::Audit() const {
  std::vector<std::string> problems;
  const auto none = [&](std::string_view what, const std::string& sql) {
    for (const auto& row : server().Query(sql)) {
      std::string text;
      for (const std::string& value : row) text += " " + value;
      problems.push_back(base_internal::Concat(what, ":", text));
    }
  };
  const std::string skus = Table("skus");
  const std::string stock = Table("stock");
  const std::string orders = Table("orders");
  const std::string lines =
      base_internal::Concat("(SELECT o.order_id,o.state,o.kind,o.buyer,o.sku_id,o.quantity FROM ", orders,
                            " o WHERE o.kind<>2 UNION ALL "
                            "SELECT o.order_id,o.state,o.kind,o.buyer,l.sku_id,l.quantity FROM ",
                            orders, " o JOIN ", Table("order_lines"), " l USING (order_id))");
  none("granted differs from available, held and sold",
       base_internal::Concat(
           "SELECT s.sku,s.granted,SUM(t.units),SUM(t.held),SUM(t.sold) FROM ", skus, " s JOIN ", stock,
           " t USING (sku_id) GROUP BY s.sku_id HAVING s.granted<>SUM(t.units)+SUM(t.held)+SUM(t.sold)"));
  none("units below 0", base_internal::Concat("SELECT * FROM ", stock, " WHERE units<0"));
  none("held or sold differ from the orders",
       base_internal::Concat(
           "SELECT s.sku,SUM(t.held),SUM(t.sold),s.sold_forgotten,(SELECT COALESCE(SUM(IF(state=0,"
           "quantity,0)),0) FROM ",
           lines,
           " l WHERE l.sku_id=s.sku_id AND kind<>3) h,(SELECT "
           "COALESCE(SUM(IF(state=1,quantity,0)),0) FROM ",
           lines, " l WHERE l.sku_id=s.sku_id AND kind<>3) d FROM ", skus, " s JOIN ", stock,
           " t USING (sku_id) GROUP BY s.sku_id HAVING SUM(t.held)<>h OR SUM(t.sold)<>d+s.sold_forgotten"));
  none("a request without its order's, or an order without its request",
       base_internal::Concat("SELECT o.order_id FROM ", orders, " o LEFT JOIN ", Table("requests"),
                             " r ON r.id=o.request WHERE r.order_id IS NULL OR r.order_id<>o.order_id"));
  none("a buyer's units differ from the orders",
       base_internal::Concat(
           "SELECT b.sku_id,HEX(b.buyer),b.units,SUM(IF(l.state<2,l.quantity,0)) q FROM ", Table("buyers"), " b JOIN ",
           lines, " l ON l.sku_id=b.sku_id AND l.buyer=b.buyer JOIN ", skus,
           " s ON s.sku_id=b.sku_id WHERE s.removed=0 AND s.sold_forgotten=0 GROUP BY b.sku_id,b.buyer "
           "HAVING b.units<>q OR b.units>MAX(b.most)"));
  return problems;
}

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FLEET_FLEET_TEST_H_
