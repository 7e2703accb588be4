// How long one durable order takes if there is nobody else, beside a thread that sends the same statements itself.
#include <mysql.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
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

constexpr char kMedian[] = "p50";
constexpr char kP99[] = "p99";

Figures FiguresOf(const Durations& durations) {
  return {{kMedian, static_cast<double>(durations.Percentile(0.5)) / 1e6},
          {kP99, static_cast<double>(durations.Percentile(0.99)) / 1e6}};
}

// A client that writes orders as a lane of a fleet does: the same statements on the same tables, each order in as many
// packets as the text has parts. The texts are ready before the clock starts.
class Writer {
 public:
  enum class Packets { kOne, kFour };

  Writer(const DiskServer& server, Packets packets) : packets_(packets), session_(mysql_init(nullptr)) {
    const FleetInventoryOptions options = NewFleet(server, packets == Packets::kOne ? "raw1" : "raw4");
    Require(Require(FleetInventory::Connect(options), "Connect")->AddSku("sku", {.stock = int64_t{1} << 40}), "AddSku");
    const std::string database = Concat("fleet_", options.fleet);
    const auto sql =
        Require(MySqlConnection::Open(Require(mysql_internal::ParseMySqlUrl(options.ledger), "a URL"), -1), "MariaDB");
    Require(sql->Run("SELECT sku_id FROM " + Table(options.fleet, "skus"), mysql_internal::MySqlInto(sku_),
                     Clock::System()->Now() + absl::Minutes(1))
                .status,
            "the SKU");
    const std::string socket = server.address() + "/socket";
    if (mysql_real_connect(session_.get(), nullptr, "root", nullptr, database.c_str(), 0, socket.c_str(),
                           CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS) == nullptr) {
      base_internal::Fatal(Concat("bench: MariaDB: ", mysql_error(session_.get())));
    }
    Send(
        "SET SESSION sql_mode='STRICT_ALL_TABLES',completion_type='NO_CHAIN';SET SESSION TRANSACTION ISOLATION LEVEL "
        "READ COMMITTED");
    Send(Concat("INSERT INTO ", Table(options.fleet, "lanes"),
                " (lane_id,nonce,fence,batch,created_at,code) VALUES (7,7,1,0,0,4)"));
    fleet_ = options.fleet;
  }

  Durations Run(int64_t orders) {
    std::vector<std::vector<std::string>> texts;
    for (int64_t i = 0; i < orders; ++i) texts.push_back(TextOf(++order_));
    Durations durations;
    for (const std::vector<std::string>& text : texts) {
      durations.Add(NanosecondsOf([&] {
        for (const std::string& packet : text) Send(packet);
      }));
    }
    return durations;
  }

 private:
  struct Close {
    void operator()(MYSQL* session) const { mysql_close(session); }
  };

  static std::string Table(std::string_view fleet, std::string_view name) { return Concat("`", fleet, "_", name, "`"); }

  std::vector<std::string> TextOf(uint64_t order) const {
    char request[33];
    std::snprintf(request, sizeof request, "%032llx", static_cast<unsigned long long>(order));
    const uint64_t id = uint64_t{7} << 32 | order;
    const std::string begin =
        Concat("SET @miss=NULL,@now=TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6));START TRANSACTION;UPDATE ",
               Table(fleet_, "lanes"), " SET batch=", order,
               ",seen_at=@now WHERE lane_id=7 AND nonce=7 AND fence=1;SET @fence=IF(ROW_COUNT()=1,1,NULL)");
    const std::string insert = Concat(
        "INSERT INTO ", Table(fleet_, "requests"), " (id,order_id) VALUES (x'", request, "',", id, ");INSERT INTO ",
        Table(fleet_, "orders"),
        " (order_id,fence,request,sku_id,quantity,buyer,kind,state,created_at,ttl_us,at) VALUES (", id, ",@fence,x'",
        request, "',", sku_, ",1,x'00000000000000000000000000000000',0,1,@now,9223372036854775807,@now)");
    const std::string pay =
        Concat("UPDATE ", Table(fleet_, "stock"), " SET units=units-1,held=held+0,sold=sold+1", " WHERE sku_id=", sku_,
               " AND segment=0;SET @miss=IF(@miss IS NULL AND ROW_COUNT()<>1,4,@miss)");
    const std::string end =
        "SET @end=IF(@fence IS NOT NULL AND @miss IS NULL,'COMMIT','ROLLBACK');PREPARE stockade_end FROM @end;EXECUTE "
        "stockade_end;SELECT @fence,@miss,@now";
    if (packets_ == Packets::kFour) return {begin, insert, pay, end};
    return {Concat(begin, ";", insert, ";", pay, ";", end)};
  }

  void Send(const std::string& packet) {
    MYSQL* const session = session_.get();
    int failed = mysql_real_query(session, packet.data(), packet.size());
    while (failed == 0) {
      mysql_free_result(mysql_store_result(session));
      failed = mysql_next_result(session);
    }
    if (failed > 0 || mysql_errno(session) != 0) base_internal::Fatal(Concat("bench: MariaDB: ", mysql_error(session)));
  }

  const Packets packets_;
  const std::unique_ptr<MYSQL, Close> session_;
  std::string fleet_;
  uint64_t sku_ = 0;
  uint64_t order_ = 0;
};

// The time of each take.
Durations Takes(Inventory& shop, RequestIds& ids, int64_t orders) {
  Durations durations;
  for (int64_t i = 0; i < orders; ++i) {
    const std::string id = ids.Next();
    durations.Add(NanosecondsOf([&] { Require(shop.Take({.sku = "sku", .request_id = id}).status(), "Take"); }));
  }
  return durations;
}

}  // namespace

void AddOneCallerRows(Suite& suite, const StartServer& server) {
  for (const auto& [packets, peer, target] :
       {std::tuple(Writer::Packets::kOne, "libmariadb, the same SQL in one packet", "<= 1.3"),
        std::tuple(Writer::Packets::kFour, "libmariadb, the same SQL in four round trips", "-")}) {
    std::vector<Comparison> rows;
    for (const char* const percentile : {kMedian, kP99}) {
      rows.push_back({.name = Concat("durable take, ", percentile, ", one caller, K = 1"),
                      .unit = "ms",
                      .peer = peer,
                      .target = percentile == kMedian ? target : "-",
                      .counter = percentile});
    }
    suite.AddRows(std::move(rows), {.prepare = [=](const Scale& scale) -> Contestants {
                    const std::shared_ptr<Inventory> shop =
                        Require(FleetInventory::Connect(NewFleet(server(), "single")), "Connect");
                    Require(shop->AddSku("sku", {.stock = int64_t{1} << 40}), "AddSku");
                    const auto ids = std::make_shared<RequestIds>();
                    const auto writer = std::make_shared<Writer>(server(), packets);
                    const int64_t orders = scale.Sized(10, 1'000);
                    return {[=](Worker&) { return FiguresOf(Takes(*shop, *ids, orders)); },
                            [=](Worker&) { return FiguresOf(writer->Run(orders)); }};
                  }});
  }
}

}  // namespace stockade::bench
