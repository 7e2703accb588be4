#ifndef STOCKADE_TESTS_INVENTORY_FLEET_FLEET_FAULTS_TEST_H_
#define STOCKADE_TESTS_INVENTORY_FLEET_FLEET_FAULTS_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_replace.h"
#include "inventory/fleet/fleet_test.h"
#include "stockade/base/clock.h"
#include "stockade/mysql/internal/mysql_connection.h"
#include "support/await.h"
#include "support/tcp_proxy.h"

namespace stockade::testing {

inline constexpr std::string_view kNothingHasChanged = "nothing has changed";
inline constexpr std::string_view kNotKnown = "not known";

// Whether the ledger was away, and the message says so.
inline bool Says(const absl::Status& status, std::string_view text) {
  return RefusalOf(status) == Refusal::kUnavailable && std::string(status.message()).find(text) != std::string::npos;
}

inline std::string TextOf(const absl::Status& status) { return status.ToString(); }

// Tests over one server, with a proxy before it.
class FleetFaultsTest : public FleetTest {
 protected:
  // Another client of the database, which may keep a transaction open.
  class Client {
   public:
    Client() {
      session_ =
          mysql_internal::MySqlConnection::Open(mysql_internal::ParseMySqlUrl(server().url()).value(), -1).value();
      Run("SET SESSION innodb_lock_wait_timeout=50, idle_transaction_timeout=0");
    }
    void Run(const std::string& sql, std::span<const mysql_internal::MySqlSink> results = {}) {
      const mysql_internal::MySqlReply reply = session_->Run(sql, results, Clock::System()->Now() + absl::Seconds(60));
      EXPECT_TRUE(reply.status.ok()) << sql << ": " << reply.status;
    }
    void LockRows(const std::string& table) {
      std::vector<int64_t> rows;
      Run("SELECT 1 FROM " + table + " FOR UPDATE", mysql_internal::MySqlInto(rows));
    }

   private:
    std::unique_ptr<mysql_internal::MySqlConnection> session_;
  };

  void SetUp() override {
    FleetTest::SetUp();
    if (!IsSkipped()) proxy_ = std::make_unique<TcpProxy>(server().port());
  }
  TcpProxy& proxy() { return *proxy_; }

  FleetInventoryOptions OptionsWith(absl::Duration patience) const {
    FleetInventoryOptions options = Options();
    options.patience = patience;
    return options;
  }
  FleetInventoryOptions ByProxy(absl::Duration patience = absl::Seconds(60)) const {
    FleetInventoryOptions options = OptionsWith(patience);
    options.ledger = MariaDbServer::UrlOf(proxy_->port());
    return options;
  }

  static int64_t Number(const std::string& sql) { return std::stoll(server().Value(sql)); }
  int64_t Orders() const { return Number("SELECT COUNT(*) FROM " + Table("orders")); }
  // Adds the SKU and sells a unit of it to order "a", even if a busy machine needs more than the shop's patience for
  // it.
  static void AddSneakers(Inventory& shop, const SkuOptions& options) {
    Await("the SKU", [&] {
      const absl::Status added = shop.AddSku("sneaker", options);
      return added.ok() || absl::IsAlreadyExists(added);
    });
    Await("an order", [&] { return shop.Take({.sku = "sneaker", .request_id = "a"}).ok(); });
  }
  // The refusal by `call` with this reason: on a busy machine its patience may end before the reason is known.
  template <typename Call>
  static absl::Status AwaitRefusal(std::string_view reason, Call call) {
    absl::Status refused;
    Await(reason, [&] {
      refused = call();
      return refused.ok() || TextOf(refused).find(reason) != std::string::npos;
    });
    return refused;
  }
  // The table innodb_trx would not show it: the server refreshes it only if nobody has read it for 100 ms.
  static void AwaitLockWait() {
    Await("a transaction that waits for a row", [] {
      return Number(
                 "SELECT variable_value FROM information_schema.global_status "
                 "WHERE variable_name='Innodb_row_lock_current_waits'") > 0;
    });
  }
  // What docs/FLEET_INVENTORY.md says is to be done after a restore.
  void FinishRestore() const {
    constexpr std::string_view kCommand = "mariadb shop -e '";
    std::ifstream file(std::string(STOCKADE_SOURCE_DIR) + "/docs/FLEET_INVENTORY.md");
    std::string line;
    while (std::getline(file, line) && !line.starts_with(base_internal::Concat(kCommand, "UPDATE shop_lanes"))) {
    }
    ASSERT_TRUE(line.ends_with("'")) << "there is no such command in docs/FLEET_INVENTORY.md";
    Client().Run(absl::StrReplaceAll(line.substr(kCommand.size(), line.size() - kCommand.size() - 1),
                                     {{"shop_", base_internal::Concat(fleet(), "_")}}));
  }
  // The answer of `call`, which needs rows of both tables, in the other order, and whose transaction is the victim.
  template <typename Call>
  absl::Status InADeadlock(std::string_view first, std::string_view second, Call call) const {
    const std::string deadlocks =
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name='Innodb_deadlocks'";
    const int64_t before = Number(deadlocks);
    Client other;
    other.Run("CREATE OR REPLACE TABLE ballast (a INT PRIMARY KEY)");
    other.Run("START TRANSACTION");
    other.Run("INSERT INTO ballast SELECT seq FROM seq_1_to_500");  // The heavier transaction is not the victim.
    other.LockRows(Table(first));
    auto answer = std::async(std::launch::async, call);
    AwaitLockWait();
    other.LockRows(Table(second));
    other.Run("COMMIT");
    EXPECT_GT(Number(deadlocks), before);
    return answer.get();
  }
  // The connection that waits for a row of a table of this fleet, in an UPDATE.
  std::string AwaitWaitingConnection(std::string_view table) const {
    AwaitLockWait();
    return server().Value(base_internal::Concat(
        "SELECT id FROM information_schema.processlist WHERE user='stockade' AND info LIKE 'UPDATE %", fleet(), "_",
        table, "%'"));
  }

 private:
  std::unique_ptr<TcpProxy> proxy_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_INVENTORY_FLEET_FLEET_FAULTS_TEST_H_
