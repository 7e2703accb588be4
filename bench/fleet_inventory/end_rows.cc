// How reservations of a fleet end if many are due at once: how many a second, and how late small orders are beside
// large baskets.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "fleet_inventory/rows.h"
#include "ledger/request_ids.h"
#include "measure/durations.h"
#include "measure/require.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/fleet_inventory.h"
#include "stockade/mysql/internal/mysql_connection.h"

namespace stockade::bench {
namespace {

using base_internal::Concat;
using mysql_internal::MySqlConnection;
using mysql_internal::MySqlInto;

constexpr absl::Duration kLimit = absl::Minutes(10);

// A fleet whose reservations are made to be due.
class Reservations {
 public:
  Reservations(const DiskServer& server, const std::string& fleet) : options_(NewFleet(server, fleet)) {
    options_.patience = kLimit;
    shop_ = Require(FleetInventory::Connect(options_), "Connect");
    sql_ = Require(MySqlConnection::Open(Require(mysql_internal::ParseMySqlUrl(options_.ledger), "a URL"), -1), "SQL");
  }
  Inventory& shop() { return *shop_; }

  void AddSkus(size_t count) {
    for (; skus_ < count; ++skus_) Require(shop_->AddSku(Sku(skus_), {.stock = int64_t{1} << 40}), "AddSku");
  }
  static std::string Sku(size_t i) { return Concat("sku ", i); }
  void Hold(int64_t count) {
    std::vector<ReserveRequest> requests;
    for (int64_t i = 0; i < count; ++i) {
      requests.push_back({.sku = Sku(0), .request_id = ids_.Next(), .ttl = absl::Hours(1)});
    }
    for (const auto& held : shop_->ReserveMany(requests)) Require(held.status(), "Reserve");
  }
  void HoldBaskets(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      BasketRequest request{.request_id = ids_.Next(), .ttl = absl::Hours(1)};
      for (size_t line = 0; line < skus_; ++line) request.lines.push_back({Sku(line), 1});
      Require(shop_->ReserveBasket(request).status(), "ReserveBasket");
    }
  }
  // All that are held are due now, those of one line one after the other within `span`.
  void SetDue(absl::Duration span) {
    const std::string now = "TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))";
    const std::string orders = Concat(options_.fleet, "_orders");
    Run(Concat("SET @due=", now, ",@n=(SELECT GREATEST(COUNT(*),1) FROM ", orders,
               " WHERE state=0 AND kind<>2),@i=0;UPDATE ", orders, " SET at=IF(kind=2,@due,@due+",
               absl::ToInt64Microseconds(span), "*(@i:=@i+1) DIV @n) WHERE state=0 ORDER BY order_id"));
  }
  // Blocks until all have ended.
  void AwaitEnd() {
    const std::string held = Concat("SELECT COUNT(*) FROM ", options_.fleet, "_orders WHERE state=0");
    for (int64_t left = 1; left > 0;) {
      Run(held, MySqlInto(left));
      if (left > 0) absl::SleepFor(absl::Milliseconds(5));
    }
  }
  std::string orders() const { return Concat(options_.fleet, "_orders"); }
  void Run(const std::string& statements, std::span<const mysql_internal::MySqlSink> results = {}) {
    Require(sql_->Run(statements, results, Clock::System()->Now() + kLimit).status, statements);
  }

 private:
  FleetInventoryOptions options_;
  std::unique_ptr<Inventory> shop_;
  std::unique_ptr<MySqlConnection> sql_;
  size_t skus_ = 0;
  RequestIds ids_;
};

double ExpiriesPerSecond(Reservations& fleet, int64_t count) {
  fleet.Hold(count);
  fleet.SetDue(absl::ZeroDuration());
  const uint64_t took = NanosecondsOf([&] { fleet.AwaitEnd(); });
  return static_cast<double>(count) * 1e9 / static_cast<double>(took);
}

// A job that looks for reservations that are due, and ends each in a transaction of its own.
class Reaper {
 public:
  explicit Reaper(const DiskServer& server) {
    const std::string url = FleetUrl(server, "mysql");
    sql_ = Require(MySqlConnection::Open(Require(mysql_internal::ParseMySqlUrl(url), "a URL"), -1), "SQL");
    Run("DROP DATABASE IF EXISTS reaper;CREATE DATABASE reaper;CREATE TABLE reaper.stock (sku INT PRIMARY KEY, units "
        "BIGINT NOT NULL, held BIGINT NOT NULL) ENGINE=InnoDB;INSERT INTO reaper.stock VALUES (1,0,1000000000);CREATE "
        "TABLE reaper.orders (id BIGINT PRIMARY KEY, state INT NOT NULL, units BIGINT NOT NULL) ENGINE=InnoDB");
  }
  double PerSecond(int64_t count) {
    std::string rows;
    for (int64_t i = 0; i < count; ++i) rows += Concat(i == 0 ? "(" : ",(", first_ + i, ",0,1)");
    Run("INSERT INTO reaper.orders VALUES " + rows);
    const uint64_t took = NanosecondsOf([&] {
      for (int64_t i = 0; i < count; ++i) {
        Run(Concat("START TRANSACTION;UPDATE reaper.orders SET state=3 WHERE state=0 AND id=", first_ + i,
                   ";UPDATE reaper.stock SET units=units+1,held=held-1 WHERE sku=1;COMMIT"));
      }
    });
    first_ += count;
    return static_cast<double>(count) * 1e9 / static_cast<double>(took);
  }

 private:
  void Run(const std::string& statements) {
    Require(sql_->Run(statements, Clock::System()->Now() + kLimit).status, "MariaDB");
  }
  std::unique_ptr<MySqlConnection> sql_;
  int64_t first_ = 0;
};

// The largest time, in seconds, from the deadline of an order of one line until its end.
double LatestSeconds(Reservations& fleet, int64_t baskets, int64_t small, absl::Duration span) {
  fleet.HoldBaskets(baskets);
  fleet.Hold(small);
  fleet.SetDue(span);
  fleet.Run(
      Concat("CREATE OR REPLACE TABLE due AS SELECT order_id,at FROM ", fleet.orders(), " WHERE state=0 AND kind<>2"));
  fleet.AwaitEnd();
  int64_t latest = 0;
  fleet.Run(Concat("SELECT COALESCE(MAX(o.at-d.at),0) FROM due d JOIN ", fleet.orders(), " o USING (order_id)"),
            MySqlInto(latest));
  return static_cast<double>(latest) / 1e6;
}

}  // namespace

void AddEndRows(Suite& suite, const StartServer& server) {
  suite.Add({.name = "expiries of reservations that are due at once, 1 process, K = 1",
             .unit = "orders/s",
             .peer = "MariaDB, one hot row, a transaction each",
             .better = Better::kHigher},
            {.prepare = [=](const Scale& scale) -> Contestants {
              const auto fleet = std::make_shared<Reservations>(server(), "due");
              fleet->AddSkus(1);
              const auto reaper = std::make_shared<Reaper>(server());
              const int64_t ours = scale.Sized(100, 30'000);
              const int64_t theirs = scale.Sized(10, 500);
              return {[=](Worker&) { return ExpiriesPerSecond(*fleet, ours); },
                      [=](Worker&) { return reaper->PerSecond(theirs); }};
            }});
  suite.Add(
      {.name = "latest expiry of 1,000 small orders beside 200 baskets of 1,000 lines",
       .unit = "s",
       .peer = "2 s",
       .target = "<= 1"},
      {.prepare = [=](const Scale& scale) -> Contestants {
        const auto fleet = std::make_shared<Reservations>(server(), "late");
        fleet->AddSkus(static_cast<size_t>(scale.Sized(20, 1'000)));
        const int64_t baskets = scale.Sized(2, 200);
        const int64_t small = scale.Sized(10, 1'000);
        const absl::Duration span = scale.quick ? absl::Milliseconds(10) : absl::Seconds(10);
        return {[=](Worker&) { return LatestSeconds(*fleet, baskets, small, span); }, [](Worker&) { return 2.0; }};
      }});
}

}  // namespace stockade::bench
