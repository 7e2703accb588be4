// Orders that are durable when they are acknowledged, on the disk of the build directory. Outstanding orders are
// threads that each wait for their own.
#include "ledger/rows.h"

#include <atomic>
#include <memory>
#include <string>

#include "harness/threads.h"
#include "ledger/naive_shop.h"
#include "ledger/temp_dir.h"
#include "stockade/base/strings.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"

namespace stockade::bench {
namespace {

std::unique_ptr<Inventory> OpenShop(const std::string& path, MetricsRegistry* metrics) {
  auto ledger = Require(SqliteLedger::Open(path, {.metrics = metrics}), "SqliteLedger::Open");
  auto shop = Require(Inventory::Create({.ledger = std::move(ledger), .metrics = metrics}), "Inventory::Create");
  Require(shop->AddSku("sku", {.stock = int64_t{1} << 40}), "AddSku");
  return shop;
}

// The directory first: it goes when all that is in it is closed.
struct World {
  TempDir dir;
  MetricsRegistry registry;
  std::unique_ptr<Inventory> ours = OpenShop(dir.path() + "/ours.db", &registry);
  NaiveShop naive{dir.path() + "/naive.db"};
  std::atomic<int64_t> next_request = 0;
};

template <typename Take>
double OrdersPerSecond(World& world, size_t outstanding, absl::Duration span, Take take) {
  return RunFor(outstanding, span, 1, [&](size_t, int64_t) { take(std::to_string(world.next_request.fetch_add(1))); })
      .PerSecond();
}

}  // namespace

void AddLedgerRows(Suite& suite) {
  for (const size_t outstanding : {1, 16, 256}) {
    suite.Add({.name = internal::Concat("durable orders, ", outstanding, " outstanding"),
               .unit = "orders/s",
               .peer = "SQLite, a transaction an order",
               .better = Better::kHigher,
               .prepare = [=](const Scale& scale) -> Contestants {
                 const auto world = std::make_shared<World>();
                 const absl::Duration span = 3 * scale.span;  // Some hundred commits.
                 return {[=] {
                           return OrdersPerSecond(*world, outstanding, span, [&](const std::string& request_id) {
                             Require(world->ours->Take({.sku = "sku", .request_id = request_id}).status(), "Take");
                           });
                         },
                         [=] {
                           return OrdersPerSecond(*world, outstanding, span, [&](const std::string& request_id) {
                             world->naive.Take(request_id);
                           });
                         }};
               }});
  }
}

}  // namespace stockade::bench
