// Step 8: the whole shop in one process, under load, and its metrics on a page for Prometheus.

#include <signal.h>
#include <stdlib.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "database.h"
#include "stockade/cache/loading_cache.h"
#include "stockade/inventory/inventory.h"
#include "stockade/inventory/sqlite_ledger.h"
#include "stockade/metrics/metrics_server.h"
#include "visitors.h"

using Products = stockade::LoadingCache<std::string, shop::Product>;

namespace {

void LookAround(Products& products, const std::stop_token& closed) {
  std::minstd_rand random(std::random_device{}());
  while (!closed.stop_requested()) {
    (void)products.Get(absl::StrCat("shoe-", random() % shop::Database::kShoes));
    absl::SleepFor(absl::Milliseconds(1));
  }
}

void Buy(stockade::Inventory& stock, std::atomic<int>& clicks, const std::stop_token& closed) {
  while (!closed.stop_requested()) {
    const absl::StatusOr<stockade::Reservation> held =
        stock.Reserve({.sku = "shoe-1", .request_id = absl::StrCat("click-", clicks++)});
    if (held.ok()) (void)(held->id() % 10 == 0 ? stock.Cancel(held->id()) : stock.Commit(held->id()));
    absl::SleepFor(absl::Milliseconds(5));
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Both end the program, by way of main(); threads that are started below do not take them.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  std::string directory = "/tmp/shop-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 2;
  {
    shop::Database db;
    Products products(
        {.name = "products", .ttl = absl::Seconds(5), .refresh_ahead = 0.7, .negative_ttl = absl::Seconds(1)},
        [&](const std::string& id, stockade::LoadContext&) { return db.Find(id); });
    stockade::Inventory stock(
        {.name = "shop",
         .ledger = shop::OrExit(stockade::SqliteLedger::Open(directory + "/orders.db", {.name = "orders"})),
         .sku_metrics = 10});
    shop::OrExit(stock.AddSku("shoe-1", {.stock = 1000}));

    const uint16_t port = argc > 1 ? static_cast<uint16_t>(std::atoi(argv[1])) : 9464;
    const std::unique_ptr<stockade::MetricsServer> metrics =
        shop::OrExit(stockade::MetricsServer::Start({.port = port}));
    std::printf("http://127.0.0.1:%u/metrics, until Ctrl-C\n", metrics->port());
    std::fflush(stdout);

    std::atomic<int> clicks = 0;
    std::vector<std::jthread> people;
    people.reserve(8);
    for (int i = 0; i < 4; ++i)
      people.emplace_back([&](const std::stop_token& closed) { LookAround(products, closed); });
    for (int i = 0; i < 4; ++i) people.emplace_back([&](const std::stop_token& closed) { Buy(stock, clicks, closed); });
    const timespec between_deliveries = {.tv_sec = 5, .tv_nsec = 0};
    while (sigtimedwait(&ends, nullptr, &between_deliveries) < 0) (void)stock.Restock("shoe-1", 1000);
  }
  std::filesystem::remove_all(directory);
}
