// How long a shop is closed when it is restarted: the ledger is opened, which checks all of it, and the inventory made
// from it. The peer reads the same orders into a map and believes them.
#include <sqlite3.h>

#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>

#include "ledger/our_shop.h"
#include "ledger/rows.h"
#include "stockade/base/log.h"

namespace stockade::bench {
namespace {

template <typename Work>
double SecondsOf(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct KeptOrder {
  int64_t id;
  std::string sku;
  int64_t units;
};

// By request id.
std::unordered_map<std::string, KeptOrder> ReadOrders(const std::string& path) {
  std::unordered_map<std::string, KeptOrder> orders;
  sqlite3* database = nullptr;
  sqlite3_stmt* select = nullptr;
  if (sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK ||
      sqlite3_prepare_v2(database, "SELECT request_id, order_id, sku, quantity FROM orders", -1, &select, nullptr) !=
          SQLITE_OK) {
    base_internal::Fatal("bench: the orders of the ledger cannot be read");
  }
  const auto text = [&](int column) { return reinterpret_cast<const char*>(sqlite3_column_text(select, column)); };
  while (sqlite3_step(select) == SQLITE_ROW) {
    orders.emplace(text(0), KeptOrder{sqlite3_column_int64(select, 1), text(2), sqlite3_column_int64(select, 3)});
  }
  sqlite3_finalize(select);
  sqlite3_close(database);
  return orders;
}

}  // namespace

void AddRestartRows(Suite& suite) {
  suite.Add(
      {.name = "restart after 10^6 orders", .unit = "s", .peer = "SELECT into a map, unchecked", .target = "<= 2"},
      {.prepare = [](const Scale& scale) -> Contestants {
        const int64_t orders = scale.Sized(2'000, 1'000'000);
        const auto shop = std::make_shared<OurShop>();
        RequestIds ids;
        RunAsyncOrders(1024, absl::Hours(1), shop->Takes(ids), orders);
        shop->Close();
        return {[=](Worker&) {
                  const double seconds = SecondsOf([&] { shop->Open(); });
                  shop->Close();
                  return seconds;
                },
                [=](Worker&) {
                  return SecondsOf([&] {
                    if (ReadOrders(shop->path()).size() != static_cast<size_t>(orders)) {
                      base_internal::Fatal("bench: the ledger has another number of orders");
                    }
                  });
                }};
      }});
}

}  // namespace stockade::bench
